"""Prints attention whose mask is a tower of operations that use what lies below twice, or is a long chain."""
import sys

LEVELS = 3000
binary, wide = sys.argv[1], "tensor<8x8xi1>"
lines = ['  %i = nn.iota {dimension = 0 : i64} : () -> tensor<8xi64>',
         '  %row = nn.reshape %i : (tensor<8xi64>) -> tensor<8x1xi64>',
         '  %c0 = nn.compare %row, %i {predicate = "ge"} : (tensor<8x1xi64>, tensor<8xi64>) -> tensor<8x8xi1>']
for level in range(LEVELS):
    below = f"%c{level}"
    if binary == "not":
        lines.append(f"  %c{level + 1} = nn.not {below} : ({wide}) -> {wide}")
    elif binary == "select":
        lines.append(f"  %c{level + 1} = nn.select {below}, {below}, %c0 : ({wide}, {wide}, {wide}) -> {wide}")
    else:
        lines.append(f"  %c{level + 1} = nn.{binary} {below}, {below} : ({wide}, {wide}) -> {wide}")
q, k, bias, result, sums = ("tensor<1x8x1x4xf32>", "tensor<1x8x1x4xf32>", "tensor<1x1x8x8xf32>", "tensor<1x8x1x4xf32>",
                            "tensor<1x1x8xf32>")
print(f"""func.func @tower(%q: {q}, %k: {k}, %v: {k}) -> {result} {{
  %zero = nn.constant dense<0.0> : tensor<f32>
  %low = nn.constant dense<-1.0e9> : tensor<f32>
{chr(10).join(lines)}
  %mask = nn.select %c{LEVELS}, %zero, %low : ({wide}, tensor<f32>, tensor<f32>) -> tensor<8x8xf32>
  %bias = nn.reshape %mask : (tensor<8x8xf32>) -> {bias}
  %0, %1 = nn.attention %q, %k, %v, %bias {{scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>}} : ({q}, {k}, {k}, {bias}) -> ({result}, {sums})
  return %0 : {result}
}}""")
