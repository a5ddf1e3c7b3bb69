// SPDX-License-Identifier: MIT
// The other side of mxfp conform, around a circuit: E2M1 to binary32. iverilog -g2012 -o caster.vvp caster.sv; vvp -n caster.vvp
module e2m1_to_f32(input [3:0] code, output [31:0] f32);
	wire [1:0] exponent = code[2:1];
	wire bit_ = code[0];
	// 0.5 is the only subnormal; else 1.m * 2^(exponent - 1).
	assign f32 = {code[3], exponent != 0 ? {8'd126 + {6'd0, exponent}, bit_, 22'd0} : bit_ ? {8'd126, 23'd0} : 31'd0};
endmodule

module top;
	localparam STDIN = 32'h8000_0000, STDOUT = 32'h8000_0001;
	reg [3:0] code;
	wire [31:0] f32;
	e2m1_to_f32 dut(.code(code), .f32(f32));

	integer c, i, n, length;
	reg [7:0] line[0:4095], bytes[0:65535];

	// The place after a key in the line, -1 if it is not there.
	function integer after(input [8*40-1:0] key, input integer n_key);
		integer k, j, equal;

		after = -1;
		for (k = 0; k + n_key <= length && after < 0; k = k + 1) begin
			equal = 0;
			for (j = 0; j < n_key; j = j + 1)
				equal = equal + (line[k + j] == key[8*(n_key-1-j) +: 8]);
			if (equal == n_key)
				after = k + n_key;
		end
	endfunction

	function integer number_at(input integer at);
		integer k;

		number_at = 0;
		for (k = at; k >= 0 && line[k] >= "0" && line[k] <= "9"; k = k + 1)
			number_at = 10 * number_at + line[k] - "0";
	endfunction

	initial forever begin
		length = 0;
		for (c = $fgetc(STDIN); c >= 0 && c != 10; c = $fgetc(STDIN)) begin
			line[length] = c;
			length = length + 1;
		end
		if (c < 0)
			$finish;
		n = number_at(after("\"bytes\":", 8));
		for (i = 0; i < n; i = i + 1)
			bytes[i] = $fgetc(STDIN);
		if (after("\"op\":\"hello\"", 12) > 0)
			$fwrite(STDOUT, "{\"version\":1,\"name\":\"caster.sv\",\"batch\":64}\n");
		else if (after("\"op\":\"decode\",\"from\":\"e2m1\"", 27) > 0) begin
			$fwrite(STDOUT, "{\"bytes\":%0d}\n", 4 * n);
			for (i = 0; i < n; i = i + 1) begin
				code = bytes[i];
				#1;
				$fwrite(STDOUT, "%c%c%c%c", f32[7:0], f32[15:8], f32[23:16], f32[31:24]);
			end
		end else
			$fwrite(STDOUT, "{\"unsupported\":true}\n");
		$fflush(STDOUT);
	end
endmodule
