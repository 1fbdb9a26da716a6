// Training state on disk: OUT/step-N/, one safetensors file per role (StateFiles.h) and meta.json. A folder is written
// aside, synced and renamed: it is whole or not there, and damage is found by checksums. Holds names, not offsets, and
// 32-bit masters whatever the precision, so that any plan of the same model can take them up.
#ifndef MT_RUNTIME_TRAIN_CHECKPOINT_H
#define MT_RUNTIME_TRAIN_CHECKPOINT_H

#include "runtime/base/Files.h"
#include "runtime/train/StateFiles.h"

#include <optional>
#include <vector>

namespace mt::train {

/// Where a run stands, and what must match for it to go on.
struct CheckpointMeta {
  int64_t format = 0; ///< 1: without checksums, run, data and numerics
  int64_t order = 0;  ///< of writing: the newest has the largest; set by saveCheckpoint()
  std::string run;    ///< identity of the run; empty: not known
  int64_t step = 0, epoch = 0;
  int64_t position = 0; ///< rows of data consumed since the start of the run
  int64_t rows = 0;     ///< of the corpus
  int64_t batch = 0, microBatch = 0, sequence = 0;
  std::string precision, optimizer, loss;
  bool clip = false;
  std::string plan;          ///< digest
  std::string modelFile;     ///< absolute path of the .onnx
  std::string graph;         ///< digest of its graph; empty: not known
  std::string frozenWeights; ///< fingerprint of what is not trained; empty: not known
  std::string data;          ///< fingerprint of the corpus; empty: not known
  std::string numerics;  ///< what the bits depend on beside the plan: device and instruction set
  nlohmann::json recipe = nlohmann::json::object(); ///< Recipe.h
  nlohmann::json aliases;                           ///< Aliases.h; null: not known
  nlohmann::json adapters;                          ///< Adapters.h; null: none
  nlohmann::json evaluations;                       ///< EvaluationRecord.h, up to this step; null: not known
  nlohmann::json files = nlohmann::json::object();  ///< StateFiles.h; empty in format 1
};

/// Which checkpoints of a run stay: the newest so many, one at least, and with `best` that of the least evaluation
/// loss.
struct Keep {
  int newest = 1;
  bool best = false;
};

/// Writes OUT/step-<meta.step>/ with the masters and moments of every trainable parameter, then removes those
/// checkpoints of the same run that are not to be kept. At every moment, and after a loss of power, what was complete
/// before is complete under its name or as a leftover that adoptLeftovers() brings back. Nothing is begun where the
/// disk has too little room. Returns the folder. `threads`: see inParallel(). Of several ranks all call it, rank 0 does
/// what is done once, and each sees the folder.
Result<std::string> saveCheckpoint(const std::string &out, const plan::Plan &plan, CheckpointMeta meta,
                                   const PartBytes &part, Keep keep, int threads = 0, StateRank rank = {});
/// Replaces what a checkpoint says of evaluations, at once and durably: that of its own step comes after it. Then
/// removes what is not to be kept.
Status recordEvaluations(const std::string &folder, const nlohmann::json &evaluations, Keep keep);

/// A folder that is or should be a checkpoint.
struct FoundCheckpoint {
  std::string folder;
  int64_t step = 0;
  Status whole;         ///< why it cannot be used; by sizes, no tensor has been read
  bool damaged = false; ///< and that is its content: not that it cannot be read, nor that a later version wrote it
  CheckpointMeta meta;  ///< of format 0 where it is not known
};
FoundCheckpoint lookAt(const std::string &folder);
/// The checkpoints in a folder, of whatever run, newest first, those that cannot be used last. Leftovers of interrupted
/// writers count, but for incomplete ones. Errors: the folder is there and cannot be read.
Result<std::vector<FoundCheckpoint>> findCheckpoints(const std::string &out);

/// Of whole checkpoints those that were evaluated, the least loss first and of equals the older: all on the data of the
/// newest of them.
std::vector<const FoundCheckpoint *> byEvaluation(const std::vector<FoundCheckpoint> &newestFirst);

/// Gives complete leftovers of interrupted writers their names, and removes the others. For the one process that
/// writes into the folder.
void adoptLeftovers(const std::string &out);
/// Renames a damaged checkpoint to damaged-step-N, so that it neither counts nor goes. Returns the new path.
Result<std::string> setAside(const std::string &folder);
/// The folders that setAside() left, as far as they can be looked at.
Result<std::vector<FoundCheckpoint>> damagedCheckpoints(const std::string &out);

/// Whether a checkpoint was trained on the graph that a plan has, and beside frozen weights of this fingerprint; yes where
/// it does not say. Errors tell what to do.
Status isOfGraph(const std::string &folder, const CheckpointMeta &meta, const plan::Plan &plan);
Status hasFrozenWeights(const std::string &folder, const CheckpointMeta &meta, const std::string &fingerprint);

Result<CheckpointMeta> readMeta(const std::string &folder);
/// The files of the checkpoint in a folder; none: there is none.
std::vector<InputFile> checkpointFiles(const std::string &folder);

/// Fills what a rank has of every trainable parameter, see readState().
Status loadCheckpoint(const std::string &folder, const plan::Plan &plan, const PartBytes &part, Wanted wanted,
                      int threads = 0, uint32_t rank = 0);
/// Whether every byte is as it was written; of format 1, whether the files are there.
Status verifyCheckpoint(const std::string &folder, bool weightsOnly, int threads = 0);
/// Whether a checkpoint that could not be loaded is damaged: all of it can be read, and is not what was written.
bool isDamaged(const std::string &folder, bool weightsOnly, int threads = 0);

} // namespace mt::train
#endif
