// What users say to mtrun, as plain structs: one field for each option of the command line (CommandLine.h fills them,
// docs/training.md explains them). No behaviour.
#ifndef MT_RUNTIME_TRAIN_OPTIONS_H
#define MT_RUNTIME_TRAIN_OPTIONS_H

#include "runtime/train/LearningRate.h"

#include <cstdint>
#include <optional>
#include <string>

namespace mt::train {

struct DataOptions {
  std::string path, tokenizer;
};

struct MachineOptions {
  std::string device; ///< empty: the plan's
  int threads = 0;    ///< 0: the machine's cores
  std::optional<uint64_t> jitter;
  bool poison = false, cudaGraphs = false;
  double slowCopies = 0; ///< bytes per second that copies are held to; 0: not
  std::string trace;
};

/// Defaults are PyTorch's, but that decay spares vectors; unset ones depend on the plan's optimizer.
struct Hyperparameters {
  LearningRate rate;
  std::optional<double> weightDecay; ///< 0.01 with adamw, 0 with sgd
  bool decayAll = false;             ///< vectors too
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, momentum = 0;
  std::optional<double> clipNorm;    ///< 1 where the plan clips
};

struct TrainOptions {
  std::string plan;
  DataOptions data;
  MachineOptions machine;
  Hyperparameters hyper;
  std::optional<int64_t> steps, epochs;
  uint64_t seed = 0;
  bool shuffle = true;
  std::string out; ///< empty: runs/<plan name>
  bool resume = false, dryRun = false, quiet = false;
  int64_t checkpointEvery = 0; ///< steps; 0: at the end only
  int keep = 2; ///< checkpoints; 0: none is written
  std::string evalData;
  int64_t evalEvery = 0; ///< steps; 0: at the end only
  std::string metrics;   ///< empty: metrics.jsonl in `out`
  std::string tensorboard, saveGradients;
};

struct EvalOptions {
  std::string plan;
  DataOptions data;
  MachineOptions machine;
  std::string from; ///< run or checkpoint; empty: the initial weights
};

struct ExportOptions {
  std::string from;   ///< run or checkpoint
  std::string output; ///< .onnx, .safetensors or .npz
  std::string model;  ///< the original .onnx; empty: where the plan found it
};

struct ProbeOptions {
  std::string output;         ///< empty: standard output
  std::string device = "cpu"; ///< cpu or cuda[:N]
  int threads = 0;
};

} // namespace mt::train
#endif
