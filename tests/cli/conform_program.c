/* SPDX-License-Identifier: MIT */
/*
 * A program that mxfp conform asks, with none of the library's code: right in what it supports, or with a fault that argv[1]
 * names. The faults are those that people reported of other programs, made again; test_conform_faults.sh has where.
 */
#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *fault = "";

/* Whether a fault is among those named, with commas between; "": none is. */
static bool is(const char *name)
{
	const size_t n = strlen(name);

	for (const char *at = fault; n > 0 && (at = strstr(at, name)) != NULL; at += n)
		if ((at == fault || at[-1] == ',') && (at[n] == '\0' || at[n] == ','))
			return true;
	return n == 0 && *fault == '\0';
}

/* Formats: exponent and significand bits, bias, largest code, and whether Inf is there. */
struct format {
	const char *name;
	int exponent_bits, significand_bits, bias, max, emax;
	bool has_inf, has_nan;
};

static const struct format formats[] = {
	{"e4m3", 4, 3, 7, 0x7E, 8, false, true}, {"e5m2", 5, 2, 15, 0x7B, 15, true, true},
	{"e2m1", 2, 1, 1, 7, 2, false, false},   {"e2m3", 2, 3, 1, 0x1F, 2, false, false},
	{"e3m2", 3, 2, 3, 0x1F, 4, false, false}, {"f16", 5, 10, 15, 0x7BFF, 15, true, true},
	{"bf16", 8, 7, 127, 0x7F7F, 127, true, true}, {"e4m3fnuz", 4, 3, 8, 0x7F, 7, false, true},
};

/* Whether 80 is NaN, and there is no -0. */
static bool is_fnuz(const struct format *f)
{
	return f->max == 0x7F;
}

static int bits_of(const struct format *f)
{
	return 1 + f->exponent_bits + f->significand_bits;
}

static const struct format *format_of(const char *name)
{
	for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
		if (strcmp(formats[i].name, name) == 0)
			return &formats[i];
	return NULL;
}

static double magnitude_of(const struct format *f, int code)
{
	int field = code >> f->significand_bits, fraction = code & ((1 << f->significand_bits) - 1);

	return field == 0 ? ldexp(fraction, 1 - f->bias - f->significand_bits) :
	                    ldexp((1 << f->significand_bits) + fraction, field - f->bias - f->significand_bits);
}

static double decode(const struct format *f, int code)
{
	int sign = code >> (bits_of(f) - 1) & 1, magnitude = code & ((1 << (bits_of(f) - 1)) - 1);
	double v = magnitude_of(f, magnitude);

	if (is("top-exponent-special") && magnitude >> 3 == 15 && f->max == 0x7E)
		v = magnitude == 0x78 ? INFINITY : NAN;
	else if (is("fnuz-nan") && code == 0x80 && f->max == 0x7E)
		v = NAN;
	else if (is_fnuz(f) && code == 0x80)
		v = NAN;
	else if (magnitude == f->max + 1 && f->has_inf && (is("inf-number") || (is("minus-inf-number") && sign)))
		v = magnitude_of(f, magnitude);
	else if (magnitude > f->max && is("nan-inf"))
		v = INFINITY;
	else if (magnitude > f->max && !is("nan-480") && !is("inf-65536"))
		v = f->has_inf && magnitude == f->max + 1 ? INFINITY : NAN;
	return sign ? -v : v;
}

/* A number to an integer in a rounding mode. */
static double to_integer(double v, const char *round, bool negative)
{
	double low = floor(v), rest = v - low;

	if (strcmp(round, "rtz") == 0)
		return low;
	if (strcmp(round, "rtp") == 0 && is("away"))
		return ceil(v);
	if (strcmp(round, "rtp") == 0)
		return negative ? low : ceil(v);
	if (strcmp(round, "rtn") == 0)
		return negative ? ceil(v) : low;
	if (rest == 0.5 && is("ties-odd"))
		return fmod(low, 2) == 1 ? low : low + 1;
	if (rest == 0.5 && is("ties-plus"))
		return negative ? low : low + 1;
	if (rest == 0.5 && is("ties-bit"))
		return low + (double)((long)low >> 1 & 1);
	if (strcmp(round, "rna") == 0)
		return rest >= 0.5 ? low + 1 : low;
	if (strcmp(round, "rhz") == 0)
		return rest > 0.5 ? low + 1 : low;
	return rest > 0.5 || (rest == 0.5 && fmod(low, 2) == 1) ? low + 1 : low;
}

static int encode(const struct format *f, double x, const char *round, bool saturates)
{
	bool negative = signbit(x) != 0, wide = bits_of(f) > 8;
	int sign = negative ? 1 << (bits_of(f) - 1) : 0, top = (1 << (bits_of(f) - 1)) - 1;
	double v = fabs(x), largest = magnitude_of(f, f->max);

	saturates = !f->has_nan || (saturates && !wide);
	if (isnan(x) && is("nan-minus-max"))
		return 1 << (bits_of(f) - 1) | f->max;
	if (isnan(x))
		return f->has_nan ? sign | (f->has_inf ? f->max + 1 + (1 << (f->significand_bits - 1)) : top) : f->max;
	if (is("shifted-out") && v < ldexp(1, 1 - f->bias)) {
		/* A shifter of two bits below the last, which are a guard and a sticky bit: what leaves it is lost. */
		const int unit = 1 - f->bias - f->significand_bits - 2;

		v = ldexp(floor(ldexp(v, -unit)), unit);
	}
	if (is("narrow-or") && v >= ldexp(1, 1 - f->bias) && !isinf(v)) {
		/* The sticky bit, without bit 9 of binary32. */
		const double ninth = ldexp(1, ilogb(v) - 14);

		if (fmod(v, 2 * ninth) >= ninth)
			v -= ninth;
	}
	if ((is("low-bit") || is("low-2-bits")) && v > 0 && !isinf(v))
		v -= fmod(v, ldexp(1, ilogb(v) - (is("low-bit") ? 22 : 21)));
	if (is("sticky-lost") && v < ldexp(1, 1 - f->bias))
		v -= fmod(v, ldexp(1, 1 - f->bias - 23));
	if (is("hidden-lost") && v < ldexp(1, 1 - f->bias) && v >= DBL_MIN)
		v -= ldexp(1, ilogb(v));
	if (is("rounds-low") && v < ldexp(1, 1 - f->bias) && v > 0)
		v = ldexp(rint(ldexp(v, f->significand_bits - ilogb(v))), ilogb(v) - f->significand_bits);
	if (is("half-away") || is("saturates-early") || is("four-decisions"))
		round = "rna";
	if (is("truncates") || (is("truncates-below") && v < ldexp(1, f->emax)))
		round = "rtz";
	if (is("never-saturates") && f->has_nan)
		saturates = false;
	if (is("through-f16") && f->max != 0x7BFF && !isinf(v)) {
		const char *saved = fault;

		fault = "";
		v = decode(&formats[5], encode(&formats[5], v, "rne", false));
		fault = saved;
	}
	if (is("four-decisions")) {
		if (v < ldexp(1, 1 - f->bias) && v < 0x1p-15)
			return 0;
		if (v >= largest + ldexp(1, f->emax - f->significand_bits - 1))
			return sign | 0x7C;
	}
	if (is("nan-512") && v >= 512 && v <= 57344)
		return 0x7F;
	if (is("saturates-early") && v >= ldexp(1, f->emax))
		return sign | f->max;
	if (is("early-overflow") && v > largest)
		return sign | (saturates ? f->max : f->max + 1);
	if (isinf(v))
		return sign | (saturates ? f->max : f->max + 1);
	int exponent = v == 0 ? 1 - f->bias : ilogb(v);
	if (exponent < 1 - f->bias)
		exponent = 1 - f->bias;
	if (is("binade-too-small") && v < ldexp(1, 1 - f->bias))
		v /= 2;
	if (is("rounds-twice"))
		v = ldexp(rint(ldexp(v, f->significand_bits + 1 - exponent)), exponent - f->significand_bits - 1);
	int left = f->significand_bits - exponent;
	if (is("shift-masked") && v > 0) {
		const int own = v < 0x1p-126 ? -126 : ilogb(v);

		left = 23 - own - ((23 - own - left) & 31);
	}
	double n = to_integer(ldexp(v, left), round, negative);
	double code = n + ((double)(exponent - 1 + f->bias) * (1 << f->significand_bits));
	if (is("loses-carry") && n == 2 << f->significand_bits)
		code -= 1 << f->significand_bits;
	if (is("carry-keeps") && n == 2 << f->significand_bits)
		code += (1 << f->significand_bits) - 1;
	if (is("subnormal-stays") && v < ldexp(1, 1 - f->bias) && code == 1 << f->significand_bits)
		code--;
	if (is("clamps-shift") && v > 0 && v < ldexp(1, -f->bias - f->significand_bits) && v != ldexp(1, ilogb(v)))
		code = 1;
	if (is("underflow-plus") && code == 0 && v > 0)
		return 0;
	if (is("largest-overflows") && code == f->max)
		code++;
	if (is("saturated-positive") && code > f->max)
		return f->max;
	if (is("binade-too-small") && f->max == 0x7E && code >= 8)
		code -= fmod(code, 2);
	if (is("carry-sets-sign") && code == 1 << (bits_of(f) - 1))
		return (int)code;
	if (is("after-sign") && code == 1 << (bits_of(f) - 1))
		return sign ^ (int)code;
	if (is("carry-unchecked") && v < ldexp(1, f->emax + 1))
		return sign ^ (int)code;
	if (code > f->max) {
		bool toward_zero = strcmp(round, "rtz") == 0 || strcmp(round, negative ? "rtp" : "rtn") == 0;

		if (is("overflow-any-mode") && v < largest + ldexp(1, f->emax - f->significand_bits))
			return sign | f->max;
		return sign | (saturates || (toward_zero && !is("overflow-any-mode")) ? f->max : f->max + 1);
	}
	if (code == 0 && (is("four-decisions") || (is("zero-unsigned") && v == 0)))
		return 0;
	if (code == 0 && is("zero-minus") && v == 0)
		return 1 << (bits_of(f) - 1);
	return sign | (int)code;
}

static int cast_number(const struct format *f, double x, const char *round, bool saturates)
{
	const int code = encode(f, x, round, saturates);

	if (is_fnuz(f) && isnan(x))
		return 0x80;
	return is_fnuz(f) && code == 0x80 && fabs(x) < 1 && !is("zero-sign-nan") && !(is("zero-nan") && x == 0) ? 0 : code;
}

/* The scale byte of an MX block, -1: this rule is not supported. */
static int scale_of(const struct format *f, const char *rule, float amax)
{
	double largest = magnitude_of(f, f->max);
	int exponent, s;

	if (amax == 0)
		return is("zero-block-nan") ? 0xFF : is("scale-1");
	double m = 2 * frexp(amax, &exponent);
	exponent--;
	if (strcmp(rule, "floor") == 0 && !is("ceil"))
		s = exponent - f->emax;
	else if (strcmp(rule, "ceil") == 0 || is("ceil"))
		s = exponent - f->emax + (m > 1);
	else if (strcmp(rule, "even") == 0)
		s = exponent - f->emax + (is("even-above") ? m > 2 - ldexp(1, -f->significand_bits - 1) : m >= 2 - ldexp(1, -f->significand_bits - 1));
	else if (strcmp(rule, "rceil") == 0)
		s = exponent - f->emax + (ldexp(m, f->emax) > largest);
	else
		return -1;
	if (is("quotient-exponent"))
		s = amax / (float)largest < FLT_MIN ? -127 : ilogbf(amax / (float)largest);
	if (is("log-nearest"))
		s = (int)floor(log2(amax / largest) + 0.5);
	if (is("power-nearest"))
		s = ilogb(amax / largest) + (amax / largest >= 1.5 * ldexp(1, ilogb(amax / largest)));
	if (is("no-emax"))
		s = exponent;
	if (is("bias-125"))
		s -= 2;
	if (is("frexp") && ldexp(m, f->emax) == largest)
		s++;
	if (is("amax-cut")) {
		const double unit = ldexp(1, ilogb((double)amax) - 7), cut = floor((double)amax / unit) * unit;

		if (cut != (double)amax)
			return scale_of(f, rule, (float)cut);
	}
	if (is("amax-bf16")) {
		const char *saved = fault;

		fault = "";
		float rounded = (float)decode(&formats[6], encode(&formats[6], amax, "rne", false));
		s = scale_of(f, rule, isinf(rounded) ? FLT_MAX : rounded) - 127;
		fault = saved;
	}
	if (is("log2-float"))
		s = (int)floorf(log2f(amax)) - f->emax;
	if (is("log2-cut"))
		s = (int)log2((double)amax) - f->emax;
	if (is("emax-1"))
		s++;
	if (is("top-250") && s > 123)
		s = 123;
	if ((is("scale-1-not-0") && s < -126) || (is("scale-1-low") && s < -127))
		return 1;
	return s < -127 + is("scale-1") ? is("scale-1") : s > 127 ? 254 : s + 127;
}

static void pack(uint8_t *bytes, const uint8_t *codes, int n, int bits)
{
	memset(bytes, 0, (size_t)(n * bits / 8));
	for (int i = 0; i < n * bits; i++)
		bytes[i / 8] |= (uint8_t)((codes[i / bits] >> i % bits & 1) << i % 8);
	if (is("high-first") && bits == 4)
		for (int i = 0; i < n / 2; i++)
			bytes[i] = (uint8_t)(bytes[i] << 4 | bytes[i] >> 4);
	if (is("signed-nibble") && bits == 4)
		for (int i = 0; i < n / 2; i++)
			bytes[i] = (uint8_t)((codes[2 * i] > 7 ? codes[2 * i] - 16 : codes[2 * i]) | codes[2 * i + 1] << 4);
	if (is("big-words"))
		for (int i = 0; i < n * bits / 8; i += 4) {
			const uint8_t word[4] = {bytes[i + 3], bytes[i + 2], bytes[i + 1], bytes[i]};

			memcpy(bytes + i, word, 4);
		}
}

static void unpack(uint8_t *codes, const uint8_t *bytes, int n, int bits)
{
	for (int i = 0; i < n; i++) {
		codes[i] = 0;
		for (int b = 0; b < bits; b++)
			codes[i] |= (uint8_t)((bytes[(i * bits + b) / 8] >> (i * bits + b) % 8 & 1) << b);
		if (is("second-top") && bits == 6 && i % 4 == 1)
			codes[i] &= 0x1F;
		if (is("split-halves") && bits == 4)
			codes[i] = i < n / 2 ? bytes[i] & 15 : bytes[i - n / 2] >> 4;
		if (is("signed-codes") && codes[i] >> (bits - 1))
			codes[i] = (uint8_t)(codes[i] - (1 << bits));
	}
}

/* Requests. */

static char line[4096];

static const char *word(const char *key)
{
	static char words[4][64];
	static int next;
	char pattern[64], *at;

	snprintf(pattern, sizeof pattern, "\"%s\":\"", key);
	at = strstr(line, pattern);
	if (at == NULL)
		return "";
	next = (next + 1) % 4;
	snprintf(words[next], sizeof words[next], "%.*s", (int)strcspn(at + strlen(pattern), "\""), at + strlen(pattern));
	return words[next];
}

static long number(const char *key)
{
	char pattern[64], *at;

	snprintf(pattern, sizeof pattern, "\"%s\":", key);
	at = strstr(line, pattern);
	return at != NULL ? atol(at + strlen(pattern)) : 0;
}

static float float_at(const uint8_t *bytes)
{
	const uint8_t swapped[4] = {bytes[3], bytes[2], bytes[1], bytes[0]};
	float x;

	memcpy(&x, is("big-endian") ? swapped : bytes, 4);
	return x;
}

static float number_bits(const char *key)
{
	uint32_t bits = (uint32_t)strtoul(strstr(line, key) != NULL ? strchr(strstr(line, key), ':') + 1 : "0", NULL, 10);

	return float_at((const uint8_t *)&bits);
}

static const struct format *element_of(const char *block)
{
	static const struct format int8 = {"int8", 1, 6, 0, 127, 0, false, false}; /* for scales alone */

	return strcmp(block, "mxfp4") == 0 ? &formats[2] : strcmp(block, "mxfp8-e4m3") == 0 ? &formats[0] :
	       strcmp(block, "mxfp8-e5m2") == 0 ? &formats[1] : strcmp(block, "mxfp6-e2m3") == 0 ? &formats[3] :
	       strcmp(block, "mxfp6-e3m2") == 0 ? &formats[4] :
	       strcmp(block, "mxint8") == 0 && (is("log2-float") || is("even-above")) ? &int8 : NULL;
}

static uint8_t *out;

static void put_float(long i, double x)
{
	float y = (float)x;

	memcpy(out + 4 * i, &y, 4);
}

/* Each answers n items and returns how many bytes that is, or -1 if it is not supported. */

static long cast(const uint8_t *in, long n)
{
	const struct format *f = format_of(word("to"));
	const char *round = word("round");
	bool saturates = strcmp(word("overflow"), "ovf") != 0;

	if (f == NULL || (strcmp(round, "sr") == 0 && !is("not-random")))
		return -1;
	for (long i = 0; i < n; i++) {
		uint32_t bits;
		int code = cast_number(f, (double)float_at(in + 4 * i), round, saturates);

		if (is("every-eighth") && i % 8 == 7)
			code = encode(f, (double)float_at(in + 4 * i), "rtz", saturates);
		memcpy(&bits, in + 4 * i, 4);
		if (bits_of(f) > 8) {
			if (isnan(float_at(in + 4 * i))) /* the payload is kept */
				code = is("bf16-no-nan") && f->max == 0x7F7F ? (int)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) : (int)(bits >> 16 & 0x8000) | (f->max + 1) | 1 << (f->significand_bits - 1) | (int)((bits & 0x7FFFFF) >> (23 - f->significand_bits));
			out[2 * i] = (uint8_t)code;
			out[2 * i + 1] = (uint8_t)(code >> 8);
		} else {
			out[i] = (uint8_t)code;
		}
	}
	return bits_of(f) > 8 ? 2 * n : n;
}

static long decode_all(const uint8_t *in, long n)
{
	const struct format *f = format_of(word("from"));

	if (f == NULL)
		return -1;
	for (long i = 0; i < n; i++)
		put_float(i, decode(f, bits_of(f) > 8 ? in[2 * i] | in[2 * i + 1] << 8 : in[i]));
	return 4 * n;
}

static long scale(const uint8_t *in, long n)
{
	const struct format *f = element_of(word("format"));
	const char *rule = word("rule");

	if (f == NULL || scale_of(f, rule, 1) < 0)
		return -1;
	for (long i = 0; i < n; i++)
		out[i] = (uint8_t)scale_of(f, rule, float_at(in + 4 * i));
	return n;
}

static long mx(const uint8_t *in, long n)
{
	const struct format *f = element_of(word("format"));
	const char *rule = word("rule"), *round = word("round");

	if (f == NULL || scale_of(f, rule, 1) < 0)
		return -1;
	long bytes = 32 * bits_of(f) / 8;
	for (long b = 0; b < n; b++) {
		static int before = 127;
		float amax = 0;
		uint8_t codes[32] = {0};
		uint32_t any = 0;
		bool odd = false;

		for (int i = 0; i < 32; i++) {
			float x = fabsf(float_at(in + 128 * b + 4 * i));
			uint32_t bits;

			if ((is("inf-largest") || is("inf-counts")) && isinf(x))
				x = FLT_MAX;
			amax = x > amax && !(is("last-out") && i == 31) ? x : amax;
			odd |= is("inf-large") ? isnan(x) : !isfinite(x);
			memcpy(&bits, &x, 4);
			any |= bits;
		}
		if (is("max-by-or"))
			memcpy(&amax, &any, 4);
		if (is("max-by-or") && !isfinite(amax))
			amax = FLT_MAX;
		if (is("nan-dropped") && isfinite(amax))
			odd = false;
		int s = odd ? 0xFF : scale_of(f, rule, isinf(amax) ? 0x1p127F : amax) + isinf(amax);
		int used = is("scale-late") ? before : s;
		before = s != 0xFF ? s : before;
		for (int i = 0; i < 32 && s != 0xFF; i++) {
			float x = float_at(in + 128 * b + 4 * i);

			if (is("inf-largest") && isinf(x))
				x = copysignf(FLT_MAX, x);
			codes[i] = (uint8_t)encode(f, isnan(x) ? 0.0 : ldexp((double)x, 127 - used), round, true);
			if (is("clips-wrong") && fabs(ldexp((double)x, 127 - s)) > 6)
				codes[i] = signbit(x) ? 14 : 6;
		}
		pack(out + b * bytes + (is("interleaved") ? b : is("scales-first") ? n : 0), codes, 32, bits_of(f));
		out[is("interleaved") ? b * (bytes + 1) + bytes : is("scales-first") ? b : n * bytes + b] = (uint8_t)s;
	}
	return n * (bytes + 1);
}

static long mx_decode(const uint8_t *in, long n)
{
	const struct format *f = element_of(word("format"));

	if (f == NULL)
		return -1;
	long bytes = 32 * bits_of(f) / 8;
	for (long b = 0; b < n; b++) {
		uint8_t codes[32];
		int s = in[is("gguf-blocks") ? b * (bytes + 1) : n * bytes + b];

		unpack(codes, in + b * bytes + (is("gguf-blocks") ? b + 1 : 0), 32, bits_of(f));
		for (int i = 0; i < 32; i++) {
			float x = (float)decode(f, codes[i]);
			double y = ldexp((double)x, s - 127);

			if (is("scale-linear"))
				y = (double)x * s;
			else if (is("scale-added") && x != 0 && s != 255) {
				uint32_t bits;

				memcpy(&bits, &x, 4);
				bits = (bits & 0x807FFFFF) | (((bits >> 23) + (uint32_t)s - 127) & 0xFF) << 23;
				y = (double)float_at((const uint8_t *)&bits);
			} else if (s == 255 && !is("scale-inf"))
				y = NAN;
			put_float(32 * b + i, y);
		}
	}
	return 128 * n;
}

/* NVFP4 by the recipes te and modelopt-0.45, in binary32. */
static long nvfp4(const uint8_t *in, long n)
{
	bool te = strcmp(word("recipe"), "te") == 0;
	float amax_t = number_bits("amax_bits");
	const struct format *e4m3 = &formats[0], *e2m1 = &formats[2];
	const char *round = word("round");

	if ((!te && strcmp(word("recipe"), "modelopt-0.45") != 0) || (!te && strcmp(round, "rne") != 0))
		return -1;
	for (long b = 0; b < n; b++) {
		float amax = 0, S = is("inverse-in-two") ? 448 * (6 / amax_t) : 2688 / amax_t, g = amax_t / 2688;
		uint8_t codes[16] = {0};
		bool odd = false;

		for (int i = 0; i < 16; i++) {
			float x = fabsf(float_at(in + 64 * b + 4 * i));

			amax = x > amax ? x : amax;
			odd |= !isfinite(x);
		}
		float u = te ? amax * (S * (1.0F / 6)) : amax / (6 * g);
		if (!te)
			u = u == 0 ? 1 : u < 0x1p-9F ? 0x1p-9F : u;
		int s = odd ? 0x7F : encode(e4m3, (double)u, "rne", true);
		if (is("block-scale-1") && s == 0)
			s = 1;
		if (is("zero-scale-nan") && amax == 0)
			s = 0x7F;
		float sf = (float)decode(e4m3, s);
		for (int i = 0; i < 16 && !odd; i++) {
			float x = float_at(in + 64 * b + 4 * i), reciprocal = 1 / (sf * (1 / S));
			float y = te ? x * (reciprocal > FLT_MAX ? FLT_MAX : reciprocal) : x / (sf * g);

			if (te && is("divides"))
				y = x / (sf * (1 / S));
			if (!te && y == 0)
				y = 0;
			codes[i] = (uint8_t)(isnan(y) ? is("divides") ? 7 : 0 : encode(e2m1, (double)y, round, true));
		}
		pack(out + 8 * b, codes, 16, 4);
		out[8 * n + b] = (uint8_t)s;
	}
	return 9 * n;
}

static long nvfp4_decode(const uint8_t *in, long n)
{
	float g = number_bits("scale_bits");
	bool divides = strcmp(word("tensor_scale"), "divides") == 0;

	if (is("not-inverted"))
		divides = false;
	for (long b = 0; b < n; b++) {
		uint8_t codes[16];
		int s = in[8 * n + b] & 0x7F;
		float sf = (float)decode(&formats[0], s);

		if (is("scale-exponent") && s != 0x7F)
			sf = ldexpf(1, (s >> 3) - 7);
		unpack(codes, in + 8 * b, 16, 4);
		for (int i = 0; i < 16; i++) {
			float x = (float)decode(&formats[2], codes[i]) * sf;

			put_float(16 * b + i, (double)(divides ? x / g : x * g));
		}
	}
	return 64 * n;
}

static long order(const uint8_t *in, long n, bool packs)
{
	int bits = (int)number("bits"), bytes = 32 * bits / 8;

	for (long i = 0; i < n; i++)
		packs ? pack(out + i * bytes, in + 32 * i, 32, bits) : unpack(out + 32 * i, in + i * bytes, 32, bits);
	return packs ? n * bytes : 32 * n;
}

/* Hopper's f16 and bf16: 16 products a step and the sum so far, aligned to 25 bits below the largest exponent, which is at least -133. */
static long dot_hopper(const struct format *f, const uint8_t *in, long n)
{
	const int least_exponent = 1 - f->bias;
	const int bits = is("fraction-24") ? 24 : 25, lowest = is("lowest-126") ? -126 : -133;
	long k = number("k");

	for (long i = 0; i < n; i++) {
		float sum = 0;

		for (long j = 0; j < k; j += 16) {
			double x[17] = {(double)sum}, all = 0, plain = (double)sum;
			int top = lowest;

			for (int t = 1; t <= 16; t++) {
				const uint8_t *a = in + 2 * (i * k + j + t - 1), *w = a + 2 * n * k;
				double p = decode(f, a[0] | a[1] << 8), q = decode(f, w[0] | w[1] << 8);
				int e = ilogb(p) < least_exponent ? least_exponent : ilogb(p);
				int g = ilogb(q) < least_exponent ? least_exponent : ilogb(q);

				x[t] = p * q;
				plain += x[t];
				e = is("normalized") ? ilogb(x[t]) : e + g;
				top = isfinite(x[t]) && x[t] != 0 && e > top ? e : top;
			}
			int own = sum == 0 || !isfinite(sum) || is("products-alone") ? top : ilogbf(sum) < -126 ? -126 : ilogbf(sum);
			top = own > top ? own : top;
			for (int t = 0; t <= 16; t++)
				all += trunc(ldexp(x[t], bits - top));
			int unit = all == 0 ? 0 : ilogb(all) - 23, least = -149 - top + bits;
			unit = unit < least && !is("cut-nearest") ? least : unit;
			sum = !isfinite(plain) ? (float)plain : all == 0 ? 0 : (float)ldexp(trunc(ldexp(all, -unit)), unit + top - bits);
		}
		put_float(i, (double)sum);
	}
	return 4 * n;
}

static float flushed(float x)
{
	return fabsf(x) < FLT_MIN ? copysignf(0, x) : x;
}

/* VDPBF16PS: a chain of fused operations, odd elements first, in which zero is what is below 2^-126: numbers of A and W, and sums
   rounded to 24 bits as if exponents had no lower end. */
static long dot_vdpbf16ps(const uint8_t *in, long n)
{
	long k = number("k");

	for (long i = 0; i < n; i++) {
		float sum = 0;

		for (long j = 0; j < k; j++) {
			const uint8_t *a = in + 2 * (i * k + (j ^ 1)), *w = a + 2 * n * k;
			float x = flushed((float)decode(&formats[6], a[0] | a[1] << 8)), y = flushed((float)decode(&formats[6], w[0] | w[1] << 8));
			float next = fmaf(x, y, sum), large = (float)(((double)x * (double)y + (double)sum) * 0x1p64);

			sum = fabsf(next) > FLT_MIN || isnan(next) ? next : is("flushes-late") ? flushed(next) :
			      fabsf(large) < FLT_MIN * 0x1p64F ? copysignf(0, next) : next;
		}
		put_float(i, (double)sum);
	}
	return 4 * n;
}

/* sum + t, rounded once: the rest of the rounding to binary64 decides where that is a tie of binary32. */
static float add_exactly(float sum, double t)
{
	double s = (double)sum + t, back = s - (double)sum, rest = ((double)sum - (s - back)) + (t - back);
	float low = (float)s;

	if (!isfinite(s) || rest == 0)
		return low;
	/* A number between s and its neighbour toward the rest rounds as the exact sum does. */
	low = (float)nextafter(s, rest > 0 ? HUGE_VAL : -HUGE_VAL);
	return (float)s == low ? low : fabs((double)low - s) == fabs((double)(float)s - s) ? low : (float)s;
}

/* Blocks of mxfp4 by `exact`: each sum is an integer in quarters. */
static long dot_exact(const uint8_t *in, long n)
{
	long k = number("k"), blocks = k / 32;
	const uint8_t *codes[2] = {in, in + n * (k / 2 + blocks)}, *scales[2] = {codes[0] + n * k / 2, codes[1] + n * k / 2};

	for (long i = 0; i < n; i++) {
		float total = 0, sum = 0;

		for (long b = 0; b < blocks; b++) {
			uint8_t a[32], w[32];
			double all = 0;
			const int left = scales[0][i * blocks + b], right = scales[1][i * blocks + b];

			unpack(a, codes[0] + i * k / 2 + 16 * b, 32, 4);
			unpack(w, codes[1] + i * k / 2 + 16 * b, 32, 4);
			for (int j = 0; j < 32; j++)
				all += decode(&formats[2], a[j]) * decode(&formats[2], w[j]);
			all = left == 255 || right == 255 ? NAN : ldexp(all, left + right - 254);
			sum = is("block-sums-f32") ? sum + (float)all : add_exactly(sum, all);
			if (b % 16 == 15 || b + 1 == blocks) {
				total += sum;
				sum = 0;
			}
		}
		put_float(i, (double)total);
	}
	return 4 * n;
}

/* Two MX operands, summed by the chain. */
static long dot(const uint8_t *in, long n)
{
	const struct format *f[2] = {element_of(word("a")), element_of(word("w"))};
	long k = number("k"), bytes[2];
	const uint8_t *codes[2], *scales[2];

	if (strcmp(word("a"), "f16") == 0 && strcmp(word("w"), "f16") == 0 && strcmp(word("acc"), "hopper") == 0)
		return dot_hopper(&formats[5], in, n);
	if (strcmp(word("a"), "bf16") == 0 && strcmp(word("w"), "bf16") == 0 && strcmp(word("acc"), "hopper") == 0)
		return dot_hopper(&formats[6], in, n);
	if (strcmp(word("a"), "bf16") == 0 && strcmp(word("w"), "bf16") == 0 && strcmp(word("acc"), "vdpbf16ps") == 0)
		return dot_vdpbf16ps(in, n);
	if (strcmp(word("a"), "mxfp4") == 0 && strcmp(word("w"), "mxfp4") == 0 && strcmp(word("acc"), "exact") == 0)
		return dot_exact(in, n);
	if (f[0] == NULL || f[1] == NULL || strcmp(word("acc"), "chain") != 0)
		return -1;
	for (int side = 0; side < 2; side++) {
		bytes[side] = k * bits_of(f[side]) / 8;
		codes[side] = side == 0 ? in : scales[0] + n * (k / 32);
		scales[side] = codes[side] + n * bytes[side];
	}
	for (long i = 0; i < n; i++) {
		const float zero = is("first-product") ? -0.0F : 0;
		float total = zero, sum = zero;

		for (long j = 0; j < k; j++) {
			float x[2];

			for (int side = 0; side < 2; side++) {
				uint8_t block[32];
				int s = scales[side][i * (k / 32) + j / 32];

				unpack(block, codes[side] + i * bytes[side] + j / 32 * 4 * bits_of(f[side]), 32, bits_of(f[side]));
				x[side] = s == 255 ? NAN : (float)ldexp(decode(f[side], block[j % 32]), s - 127);
			}
			volatile float product = x[0] * x[1];
			product = is("drops-last") && j == k - 1 ? 0 : product;
			sum = is("rounded-products") || is("drops-last") ? sum + product : fmaf(x[0], x[1], sum);
			if (is("flushes-sums") && fabsf(sum) < FLT_MIN)
				sum = copysignf(0, sum);
			if ((j % 512 == 511 && !is("one-pass")) || j == k - 1) {
				total += sum;
				sum = zero;
			}
		}
		if (is("flushes-results") && fabsf(total) < FLT_MIN)
			total = 0;
		put_float(i, (double)total);
	}
	return 4 * n;
}

/* 2:4 alone. */
static long prune(const uint8_t *in, long n)
{
	if (strcmp(word("sparsity"), "2:4") != 0)
		return -1;
	for (long g = 0; g < n; g++) {
		uint32_t x[4];
		int kept = 0, mask = 0;

		memcpy(x, in + 16 * g, 16);
		for (int i = 0; i < 4; i++) {
			int before = 0;

			for (int j = 0; j < 4; j++) {
				uint32_t a = x[i] & 0x7FFFFFFF, b = x[j] & 0x7FFFFFFF;

				before += b > a || (b == a && (is("last-of-equal") ? j > i : j < i));
			}
			mask |= (before < 2) << i;
		}
		out[g] = (uint8_t)mask;
		for (int i = 0; i < 4; i++)
			if (mask >> i & 1)
				memcpy(out + n + 8 * g + 4 * kept++, &x[i], 4);
	}
	return 9 * n;
}

static long answer(const uint8_t *in, long n)
{
	const char *op = word("op");

	return strcmp(op, "cast") == 0 ? cast(in, n) : strcmp(op, "decode") == 0 ? decode_all(in, n) :
	       strcmp(op, "scale") == 0 ? scale(in, n) : strcmp(op, "mx") == 0 ? mx(in, n) :
	       strcmp(op, "mx-decode") == 0 ? mx_decode(in, n) : strcmp(op, "nvfp4") == 0 ? nvfp4(in, n) :
	       strcmp(op, "nvfp4-decode") == 0 ? nvfp4_decode(in, n) : strcmp(op, "pack") == 0 ? order(in, n, true) :
	       strcmp(op, "unpack") == 0 ? order(in, n, false) : strcmp(op, "dot") == 0 ? dot(in, n) :
	       strcmp(op, "prune") == 0 ? prune(in, n) : -1;
}

/* What a program may do in place of an answer. */
static void misbehave(long n_bytes)
{
	if (is("dies"))
		raise(SIGSEGV);
	static int asked;

	if (is("exits") || (is("exits-second") && ++asked == 2))
		exit(3);
	if (is("sleeps"))
		sleep(60);
	if (is("babbles"))
		puts("loading the model ...");
	if (is("other-key")) {
		puts("{\"bytes\":0,\"status\":\"failed\"}");
		return;
	}
	if (is("lies")) /* more bytes than it announces */
		n_bytes += 8;
	if (is("short")) {
		printf("{\"bytes\":%ld}\n", n_bytes / 2);
		n_bytes /= 2;
	} else if (is("quoted")) {
		printf("{\"bytes\":\"%ld\"}\n", n_bytes);
	} else {
		printf("{\"bytes\":%ld}\n", is("lies") ? n_bytes - 8 : n_bytes);
	}
	while (is("drips") && n_bytes > 0) {
		putchar(0);
		fflush(stdout);
		nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
		n_bytes--;
	}
	if (is("endless"))
		for (;;)
			fwrite(out, 1, 1, stdout);
	fwrite(out, 1, (size_t)(is("exits-half") ? n_bytes / 2 : is("stalls") ? n_bytes - 1 : n_bytes), stdout);
	if (is("exits-half") || (is("stalls") && fflush(stdout) == 0 && sleep(60) == 0))
		exit(3);
}

int main(int argc, char **argv)
{
	long refused = 0;

	fault = argc > 1 ? argv[1] : "";
	if (is("silent"))
		sleep(60);
	if (is("no-line") && fgets(line, sizeof line, stdin) != NULL)
		for (int i = 0; i < 100000; i++)
			putchar('x');
	while (fgets(line, sizeof line, stdin) != NULL) {
		long n_bytes = number("bytes"), n = number("n");
		uint8_t *in = malloc((size_t)n_bytes + 1);

		out = calloc((size_t)n * 160 + 64, 1);
		if (in == NULL || out == NULL || (is("deaf") && n > 0 && sleep(60) == 0) || fread(in, 1, (size_t)n_bytes, stdin) != (size_t)n_bytes)
			return 1;
		if (strcmp(word("op"), "hello") == 0 && is("refuses-hello")) {
			puts("{\"unsupported\":true}");
		} else if (strcmp(word("op"), "hello") == 0) {
			printf("{\"version\":%d,\"name\":\"test%s%s\",\"batch\":%d}\n", is("version-2") ? 2 : 1, *fault != '\0' ? " " : "", fault,
			       is("") ? 1000 : 65536);
		} else {
			const long n_answer = is("zeros") ? 4 * n : answer(in, n); /* of results of one binary32 */

			if (n_answer < 0)
				puts("{\"unsupported\":true}");
			else
				misbehave(n_answer);
			refused = n_answer < 0 && n_bytes > refused ? n_bytes : refused;
		}
		fflush(stdout);
		free(in);
		free(out);
	}
	if (is("counts"))
		fprintf(stderr, "%ld bytes of a request that is refused, at most\n", refused);
	if (is("stays"))
		sleep(60);
	return is("fails-at-end") ? 1 : 0;
}
