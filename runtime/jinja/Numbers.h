// Python's arithmetic: integers (of 64 bits here: more is an error), floats, and how both are read and written.
#ifndef MT_RUNTIME_JINJA_NUMBERS_H
#define MT_RUNTIME_JINJA_NUMBERS_H

#include "runtime/jinja/Value.h"

#include <string>

namespace mt::jinja {

enum class Arithmetic { Add, Subtract, Multiply, Divide, FloorDivide, Modulo, Power };

/// Of two numbers. Errors: division by zero, a result that 64 bits do not hold, a complex one.
Result<Value> calculated(Arithmetic operation, const Value &left, const Value &right);

/// The shortest digits that read back as the same float, as Python's repr: 1.0, 1e+16, nan.
std::string writtenFloat(double number);
/// int(text, base) and float(text); nothing where Python raises ValueError. Errors: 64 bits do not hold it.
Result<std::optional<int64_t>> readInteger(std::string_view text, int64_t base);
std::optional<double> readFloat(std::string_view text);
/// A float's whole part. Errors: infinite, not a number, too large.
Result<int64_t> truncated(double number);
/// Rounded to decimal digits, ties to even, as Python's round.
Result<Value> rounded(const Value &number, int64_t digits);

} // namespace mt::jinja
#endif
