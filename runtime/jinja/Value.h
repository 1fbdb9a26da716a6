// What expressions of a template give, with Python's meaning: numbers, text, sequences, dictionaries, and objects that
// have attributes or can be called. Values are small and copied freely; what they point to belongs to the Heap of one
// render, to the template or to its variables.
#ifndef MT_RUNTIME_JINJA_VALUE_H
#define MT_RUNTIME_JINJA_VALUE_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mt::jinja {

class Heap;
class Render;
class Object;
struct Sequence;
struct Dictionary;

struct Value {
  /// Missing is an argument that was not given; no expression gives it.
  enum class Kind : uint8_t { Missing, Undefined, None, Boolean, Integer, Real, Text, Sequence, Dictionary, Object };

  Kind kind = Kind::Missing;
  bool markup = false; ///< of text: it is marked as HTML
  union {
    int64_t integer = 0; ///< Boolean too: 0 or 1
    double real;
    const Sequence *sequence;
    const Dictionary *dictionary;
    Object *object;
  };
  std::string_view text; ///< Undefined: the name of what is not there

  static Value undefined(std::string_view name);
  static Value none();
  static Value of(bool truth);
  static Value of(int64_t number);
  static Value of(double number);
  static Value of(std::string_view text);
  static Value of(const Sequence *sequence);
  static Value of(const Dictionary *dictionary);
  static Value of(Object *object);
  // Nothing else becomes one of these by conversion.
  template <typename T> static Value of(T) = delete;

  bool is(Kind which) const { return kind == which; }
  bool missing() const { return is(Kind::Missing); }
  /// A whole number: True is 1, False 0.
  bool whole() const { return is(Kind::Integer) || is(Kind::Boolean); }
  bool number() const { return whole() || is(Kind::Real); }
  double asReal() const { return is(Kind::Real) ? real : static_cast<double>(integer); }
};

/// Values in an order. Iterators, which filters such as map give, are read once; views are a dictionary's.
struct Sequence {
  enum class Kind : uint8_t { List, Tuple, Range, Iterator, Keys, Values, Items };
  Kind kind = Kind::List;
  std::vector<Value> items;
  int depth = 1;                         ///< levels of containers
  int64_t start = 0, stop = 0, step = 1; ///< Range
  mutable bool read = false;             ///< Iterator: a render is one thread's
  bool indexed() const { return kind == Kind::List || kind == Kind::Tuple || kind == Kind::Range; }
};

/// Keys and values in the order in which the keys came.
struct Dictionary {
  std::vector<std::pair<Value, Value>> entries;
  int depth = 1;
};

/// Arguments as they stand in a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;
  const Value &operator[](size_t i) const { return positional[i]; }
};

/// Macros, functions, methods, namespaces, the variable `loop`.
class Object {
public:
  virtual ~Object() = default;
  /// For messages: "a macro".
  virtual std::string_view name() const = 0;
  virtual std::optional<Value> attribute(Heap &, std::string_view) { return std::nullopt; }
  /// How Python writes it, unless with an address.
  virtual std::optional<std::string> written() const { return std::nullopt; }
  virtual bool callable() const { return false; }
  virtual Result<Value> call(Render &render, const Arguments &arguments);
};

/// Whether Python takes it for true.
bool truthOf(const Value &value);
/// For messages: "a list", "text".
std::string_view nameOf(const Value &value);
/// The error of using what is not there: "'x' is undefined".
Status undefinedError(const Value &value);

} // namespace mt::jinja
#endif
