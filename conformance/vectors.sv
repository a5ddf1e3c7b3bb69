// SPDX-License-Identifier: MIT
// A circuit against conformance/vectors: E2M1 to binary32. In that folder:
// iverilog -g2012 -o vectors.vvp ../vectors.sv && vvp -n vectors.vvp
module e2m1_to_f32(input [3:0] code, output [31:0] f32);
	// 0.5 is the only subnormal; else 1.m * 2^(exponent - 1).
	assign f32 = {code[3], code[2:1] != 0 ? {8'd126 + {6'd0, code[2:1]}, code[0], 22'd0} : code[0] ? {8'd126, 23'd0} : 31'd0};
endmodule

module top;
	// A line of the file: 1x8 result:1x32.
	reg [8+32-1:0] lines[0:15];
	reg [3:0] code;
	reg [31:0] expected;
	wire [31:0] f32;
	integer i, differ = 0;
	e2m1_to_f32 dut(.code(code), .f32(f32));

	initial begin
		$readmemh("decode_e2m1.hex", lines);
		for (i = 0; i < 16; i = i + 1) begin
			{code, expected} = lines[i][35:0];
			#1;
			if (f32 !== expected) begin
				$display("decode_e2m1.hex item %0d: code %h, expected %h, got %h", i, code, expected, f32);
				differ = differ + 1;
			end
		end
		$display("%0d of 16 differ", differ);
		$finish;
	end
endmodule
