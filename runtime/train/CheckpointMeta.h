// meta.json of a checkpoint, under a checksum of its own. Internal to checkpoints: others read it with readMeta().
#ifndef MT_RUNTIME_TRAIN_CHECKPOINTMETA_H
#define MT_RUNTIME_TRAIN_CHECKPOINTMETA_H

#include "runtime/train/Checkpoint.h"

namespace mt::train {

/// Writes FOLDER/meta.json durably. Written last, it says that the folder is complete.
Status writeMeta(const std::string &folder, const CheckpointMeta &meta);

/// Whether a checkpoint is undamaged, and of a version after this one.
bool isOfLaterVersion(const std::string &folder);

} // namespace mt::train
#endif
