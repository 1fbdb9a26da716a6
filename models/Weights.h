// Where the initial values of a written model's parameters come from. GraphBuilder asks it to complete every parameter's
// TensorProto; it decides between a generator in metadata and bytes of a file. It knows nothing of graphs.
#ifndef MT_MODELS_WEIGHTS_H
#define MT_MODELS_WEIGHTS_H

#include "runtime/base/Status.h"
#include "third_party/onnx/onnx-ml.pb.h"

#include <cstdint>
#include <string>

namespace mt::models {

/// The distribution a freshly made parameter is drawn from.
struct Generator {
  std::string kind = "normal"; ///< normal, zeros, ones
  double deviation = 0.02;     ///< standard deviation of normal
};
inline Generator zeros() { return {"zeros", 0}; }
inline Generator ones() { return {"ones", 0}; }
inline Generator normal(double deviation) { return {"normal", deviation}; }

class Weights {
public:
  virtual ~Weights() = default;
  /// Completes `tensor`, whose name and dims are set: element type and where its values are.
  virtual Status locate(onnx::TensorProto &tensor, const Generator &fresh) = 0;
  /// Whether a parameter that a family may do without, such as a bias, is there; made-up models do without.
  virtual bool has(const std::string &) const { return false; }
};

/// Values named by generator and seed (docs/models.md). Offsets run on in `location`, the name of the file that
/// would hold, or holds, the bytes: 4 bytes an element, every tensor aligned to 64.
class GeneratedWeights : public Weights {
public:
  GeneratedWeights(std::string location, uint64_t seed) : location(std::move(location)), seed(seed) {}
  Status locate(onnx::TensorProto &tensor, const Generator &fresh) override;

private:
  std::string location;
  uint64_t seed, end = 0;
};

/// How many numbers a tensor of these dims has.
uint64_t elements(const onnx::TensorProto &tensor);
/// Appends one entry of `tensor`'s external data.
void addExternal(onnx::TensorProto &tensor, const std::string &key, const std::string &value);
/// The value of such an entry, or an empty text.
std::string externalValue(const onnx::TensorProto &tensor, const std::string &key);

} // namespace mt::models
#endif
