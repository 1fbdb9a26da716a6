// ONNX models: importing and the phase `nn`, and of one in four all that follows - layers, planning on a small budget,
// emission - which takes most of the time. Whatever a model is, it compiles to a plan that loads, or is refused with a message.
#include "compiler/pipeline/Pipeline.h"
#include "runtime/plan/PlanFile.h"
#include "tests/fuzz/Bytes.h"
#include "tests/fuzz/MemoryFile.h"
#include "tests/fuzz/OnnxMutator.h"

#include "mlir/IR/MLIRContext.h"

#include <google/protobuf/stubs/logging.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>

namespace {

using namespace mt;

/// What a user may choose, out of the bits of the model's own version, which nothing else reads.
pipeline::Options optionsOf(const std::string &path, const ::onnx::ModelProto &model) {
  auto bits = static_cast<uint64_t>(model.model_version());
  constexpr const char *kLosses[] = {"", "causal-lm", "cross-entropy", "mse"};
  constexpr const char *kTargets[] = {"cpu", "cpu-discrete", "h100"};
  pipeline::Options options;
  options.model = path;
  options.batch = 1 + static_cast<int64_t>(bits % 2);
  options.sequence = 4 + static_cast<int64_t>(bits / 2 % 2) * 3;
  options.loss = kLosses[bits / 4 % 4];
  options.precision = bits / 16 % 2 ? "bf16" : "fp32";
  options.clip = bits / 32 % 2;
  options.target = kTargets[bits / 64 % 3];
  options.optimizer = bits / 256 % 2 ? "sgd" : "adamw";
  if (bits / 512 % 2)
    options.train = {"*"};
  if (bits / 1024 % 4 == 0)
    options.deviceMemory = 256 << 10;
  if (bits / 4096 % 4 == 1 && model.graph().output_size() > 0)
    options.loss = "output:" + model.graph().output(0).name();
  if (bits / 16384 % 8 != 5) { // a search tries hundreds of schedules
    options.savedActivations = bits / 16384 % 2 ? "input" : "all";
    options.residency = "none";
    options.park = false;
    options.microBatch = options.batch;
  }
  return options;
}

/// Types and attributes are kept by a context for ever: a new one now and then.
mlir::MLIRContext &context() {
  static std::unique_ptr<mlir::MLIRContext> held;
  static int uses = 0;
  if (!held || ++uses % 256 == 0) {
    held = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
    pipeline::loadDialects(*held);
  }
  return *held;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static fuzz::MemoryFile memory;
  google::protobuf::LogSilencer silencer;
  ::onnx::ModelProto model;
  (void)model.ParsePartialFromArray(data, static_cast<int>(size));
  pipeline::Options options = optionsOf(memory.of({data, size}), model);
  bool whole = std::accumulate(data, data + size, 0U) % 4 == 0;
  pipeline::Phase last = whole ? pipeline::Phase::plan : pipeline::Phase::nn;
  pipeline::Messages messages;
  auto compiled = pipeline::compile(context(), options, last, "fuzz", messages);
  if (!compiled.ok()) {
    if (compiled.status().message().empty())
      std::abort();
    return 0;
  }
  if (!whole)
    return 0;
  auto loaded = plan::deserialize(plan::serialize(compiled->plan), "compiled");
  if (!loaded.ok()) {
    std::fprintf(stderr, "the plan is not valid: %s\n", loaded.status().message().c_str());
    std::abort();
  }
  return 0;
}

static size_t store(const ::onnx::ModelProto &model, uint8_t *data, size_t most) {
  std::string bytes;
  if (!model.SerializePartialToString(&bytes) || bytes.size() > most)
    return 0;
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned int seed) {
  google::protobuf::LogSilencer silencer;
  ::onnx::ModelProto model;
  if (seed % 64 == 0 || !model.ParsePartialFromArray(data, static_cast<int>(size)))
    return LLVMFuzzerMutate(data, size, most);
  fuzz::OnnxMutator(model, seed).mutate();
  size_t stored = store(model, data, most);
  return stored ? stored : size;
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t size, const uint8_t *other, size_t otherSize,
                                            uint8_t *out, size_t most, unsigned int seed) {
  google::protobuf::LogSilencer silencer;
  ::onnx::ModelProto model, second;
  if (!model.ParsePartialFromArray(data, static_cast<int>(size)) || !second.ParsePartialFromArray(other, static_cast<int>(otherSize)))
    return 0;
  fuzz::OnnxMutator(model, seed).graft(second);
  return store(model, out, most);
}
