#include "runtime/train/CheckpointWriter.h"

#include "runtime/base/Log.h"
#include "runtime/base/Sizes.h"
#include "runtime/train/Checksum.h"

#include <system_error>
#include <utility>

namespace mt::train {

std::string CheckpointWriter::reserveCopy(uint64_t others, uint32_t processes) {
  constexpr uint64_t kAlignment = 64, kBuffers = 64 << 20; // of the thread that writes
  uint64_t bytes = 0;
  others += kBuffers;
  for (const plan::Parameter &parameter : plan.parameters)
    for (const plan::Part &part : parameter.parts)
      if (parameter.trainable) {
        places[&part] = bytes;
        bytes += (part.span.bytes + kAlignment - 1) / kAlignment * kAlignment;
      }
  std::string atRest = "checkpoints are written with training at rest: a copy of the state to write from ";
  if (host::MachineMemory machine = host::sharedBy(host::machineMemory(), processes);
      machine.available < bytes + others)
    return fmt::format("{}takes {}, and this machine has {} available, limited by {}", atRest, formatSize(bytes),
                       formatSize(machine.available - std::min(machine.available, others)), machine.limit);
  Result<host::Arena> made = host::Arena::reserve(bytes, "copy of the state", true);
  if (!made)
    return fmt::format("{}cannot be had: {}", atRest, made.status().message());
  arena.emplace(std::move(*made));
  return fmt::format("checkpoints are written beside training, from a copy of the state of {}", formatSize(bytes));
}

void CheckpointWriter::begin(CheckpointMeta meta) {
  int64_t step = meta.step;
  wait();
  if (!arena)
    return warn(step, save(meta, setup.state, setup.threads));
  if (Status copied = setup.rank.agree(copy()); !copied)
    return warn(step, copied);
  auto work = [this, meta = std::move(meta)] {
    auto bytes = [this](const plan::Part &part) {
      return host::HostBytes(std::span(arena->data() + places.at(&part), part.span.bytes));
    };
    warn(meta.step, save(meta, bytes, 1)); // one thread: the others train
  };
  try {
    writing = std::jthread(work);
  } catch (const std::system_error &) { // there are no more threads
    work();
  }
}

Status CheckpointWriter::write(CheckpointMeta meta) {
  wait();
  return save(meta, setup.state, setup.threads);
}

void CheckpointWriter::record(EvaluationRecord evaluations) {
  recorded = std::move(evaluations);
  if (!writing.joinable())
    writeRecord();
}

void CheckpointWriter::wait() {
  if (writing.joinable())
    writing.join();
  writeRecord();
}

void CheckpointWriter::writeRecord() {
  const std::optional<EvaluationRecord> known = std::exchange(recorded, std::nullopt);
  if (!known || known->step != setup.step || setup.newest.empty() || setup.rank.rank() != 0)
    return;
  if (Status written = recordEvaluations(setup.newest, known->toJson(), setup.keep); !written)
    log().warn("{}: its evaluation is not noted there: {}", setup.newest, written.message());
}

Status CheckpointWriter::save(const CheckpointMeta &meta, const PartBytes &bytes, int threads) {
  MT_ASSIGN(setup.newest, saveCheckpoint(setup.out, plan, meta, bytes, setup.keep, threads, setup.rank));
  setup.step = meta.step;
  return Status();
}

Status CheckpointWriter::copy() {
  std::vector<std::pair<host::HostBytes, std::byte *>> all;
  std::vector<uint64_t> sizes;
  for (const auto &[part, offset] : places) {
    all.emplace_back(setup.state(*part), arena->data() + offset);
    sizes.push_back(part->span.bytes);
  }
  std::vector<Piece> pieces = piecesOf(sizes);
  return inParallel(pieces.size(), setup.threads, [&](size_t i) {
    const auto &[from, to] = all[pieces[i].tensor];
    return from.part(pieces[i].begin, pieces[i].bytes).copyTo({to + pieces[i].begin, pieces[i].bytes});
  });
}

void CheckpointWriter::warn(int64_t step, const Status &failure) const {
  const bool goesOn = !setup.rank.others || setup.rank.others->failure();
  if (!failure && goesOn && setup.rank.rank() == 0) // which all ranks agree on
    log().warn("no checkpoint of step {}: {}; the run goes on", step, failure.message());
}

} // namespace mt::train
