// SPDX-License-Identifier: MIT
//! The other side of mxfp conform, for a caster from binary32 to E5M2, toward zero: rustc -O caster.rs
use std::io::{self, BufRead, Read, Write};

/// What is to be checked. f32 to E5M2 keeps the top two bits of the significand.
fn e5m2(x: f32) -> u8 {
    let sign = ((x.to_bits() >> 24) & 0x80) as u8;
    let magnitude = x.abs();
    if x.is_nan() {
        return sign | 0x7E;
    }
    if magnitude >= 57344.0 {
        return sign | 0x7B; // saturating, Inf too
    }
    if magnitude < 2f32.powi(-14) {
        return sign | (magnitude * 2f32.powi(16)) as u8; // subnormal: a multiple of 2^-16
    }
    let bits = magnitude.to_bits();
    let exponent = (bits >> 23) as i32 - 127 + 15;
    sign | ((exponent as u8) << 2) | ((bits >> 21) & 3) as u8
}

/// The integer after "key": in a line; the keys are never within strings.
fn number(line: &str, key: &str) -> usize {
    let at = line.find(key).map(|at| &line[at + key.len()..]).unwrap_or("0");
    at.chars().take_while(|c| c.is_ascii_digit()).collect::<String>().parse().unwrap_or(0)
}

fn main() -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let mut bytes = vec![0u8; number(&line, "\"bytes\":")];
        input.read_exact(&mut bytes)?;
        if line.contains("\"op\":\"hello\"") {
            writeln!(output, "{{\"version\":1,\"name\":\"caster.rs\"}}")?;
        } else if line.contains("\"op\":\"cast\",\"to\":\"e5m2\",\"round\":\"rtz\",\"overflow\":\"sat\"") {
            let codes: Vec<u8> = bytes
                .chunks_exact(4)
                .map(|b| e5m2(f32::from_le_bytes([b[0], b[1], b[2], b[3]])))
                .collect();
            writeln!(output, "{{\"bytes\":{}}}", codes.len())?;
            output.write_all(&codes)?;
        } else {
            writeln!(output, "{{\"unsupported\":true}}")?;
        }
        output.flush()?;
        line.clear();
    }
    Ok(())
}
