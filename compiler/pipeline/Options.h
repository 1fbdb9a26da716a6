// What a user chooses for a compilation, in one struct: mtc fills it from flags, the pipeline reads it.
#ifndef MT_COMPILER_PIPELINE_OPTIONS_H
#define MT_COMPILER_PIPELINE_OPTIONS_H

#include "compiler/target/Target.h"
#include <array>
#include <cstdint>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mt::pipeline {

/// The places where the pipeline can stop and print; each is closed by a verifier.
enum class Phase : uint8_t { nn, layers, schedule, plan };

struct Options {
  std::string model;                   ///< path of the .onnx
  int64_t batch = 8;                   ///< rows per step
  std::optional<int64_t> microBatch;   ///< rows per template call; none: the planner chooses among divisors of the batch
  std::optional<int64_t> sequence;     ///< tokens per row
  std::map<std::string, int64_t> dims; ///< other symbolic dimensions
  std::map<std::string, int64_t> batchDims; ///< dimensions that are the batch: onnx::ImportOptions
  std::string loss;                    ///< empty: chosen from the model
  double labelSmoothing = 0, zLoss = 0; ///< of a cross-entropy
  std::vector<std::string> train, freeze;
  std::vector<std::string>
      lora; ///< adapters, as Adapters.h reads them; if there are any, only what `train` names is trained besides
  bool packBase = false; ///< frozen weights of products in four bits
  std::string precision = "fp32";
  std::string optimizer = "adamw";
  std::vector<std::string> groups; ///< of parameters: plan::ParameterGroup
  bool clip = false;
  bool ema = false;            ///< optimizers keep an average of the weights, too
  bool pack = false;           ///< rows hold several sequences: of checkpoint folders
  bool narrowExchange = false; ///< ranks send each other gradients in 16 bits
  std::string target = "cpu";
  std::optional<uint32_t> devices;                  ///< none: the target's
  std::optional<uint32_t> ranks;                    ///< none: the target's
  std::vector<uint32_t> hosts, deviceCounts;        ///< of fit: numbers that are compared, if any
  /// Bytes per second that each sends, from the host's memory and from a device's (0: through the host); none: the
  /// target's.
  std::optional<std::array<double, 2>> network;
  std::optional<std::array<double, 2>> disk;        ///< bytes per second that it reads and writes; none: the target's, if any
  std::optional<uint64_t> deviceMemory, hostMemory; ///< bytes, of each device and of the host; none: the target's
  std::optional<bool> batchShared;                  ///< by devices; none: the planner chooses
  std::optional<std::string> savedActivations;      ///< input, attention or all; none: the planner chooses
  std::optional<std::string> residency;             ///< none, weights or state, of every layer
  std::optional<int64_t> prefetchDistance;
  std::optional<bool> park;
  std::optional<double> clipped; ///< share of steps whose gradient is clipped; none: a guess
  bool fuse = true;       ///< chains of elementwise operations become one kernel each
  bool report = false;    ///< what is only said in a report is found out, too
  bool everyNode = false; ///< problems name all nodes that they are about, not the first few
};

/// The target that options name, with as many devices, ranks and disks as they say.
Result<target::Target> targetOf(const Options &options);

} // namespace mt::pipeline
#endif
