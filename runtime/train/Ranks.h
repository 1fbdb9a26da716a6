// The processes that train one plan together, as the training loop sees them: what they agree on, what rank 0 tells the
// others, and how the job ends on all of them. A plan for one is a job of one: nothing is asked or told then.
#ifndef MT_RUNTIME_TRAIN_RANKS_H
#define MT_RUNTIME_TRAIN_RANKS_H

#include "runtime/network/Network.h"
#include "runtime/plan/Program.h"
#include "runtime/train/Options.h"

#include <nlohmann/json.hpp>

#include <memory>

namespace mt::train {

class Ranks {
public:
  /// Joins the other processes, if a launcher started some: before anything that may go wrong on one alone.
  Status open();
  /// Moves a plan to this rank. Errors: it is for another number of them.
  Status join(plan::Plan &plan);

  uint32_t rank() const { return network ? network->rank() : 0; }
  uint32_t count() const { return network ? network->ranks() : 1; }
  /// Those on this machine, and which of them this one is.
  uint32_t localCount() const { return onMachine; }
  uint32_t localRank() const { return numberOnMachine; }
  /// Where several share a machine, each has a part of its cores, and GPUs of its own, unless the user says which.
  /// Traces are each rank's own: of rank 1, trace.rank1.json.
  MachineOptions shareOf(MachineOptions machine, const plan::Plan &plan) const;
  /// Whether it is the one that writes files and tells people.
  bool isFirst() const { return rank() == 0; }
  /// Null where there is but one.
  network::Network *others() const { return network.get(); }

  // What follows is called by all of them alike, each time in the same order.

  /// The first error of any, which is named.
  Status agree(const Status &own);
  /// What rank 0 has to say; an error of it is everybody's.
  Result<std::string> told(const Result<std::string> &byFirst);
  /// Whether it is so on any.
  Result<bool> any(bool own);
  /// Fails where a rank has another value than rank 0, and names it: {"data": fingerprint, ...}.
  Status compare(const nlohmann::ordered_json &values);
  /// Whether all are to stop, as someone was asked to. Once it is so, it stays so.
  bool stop();
  /// What stop() has said last.
  bool stopped() const;

  /// The end of a job. Of several ranks a failure of one ends the others, too; but for the first, who tells people,
  /// they do not return from here.
  Status end(const Status &own);

private:
  std::unique_ptr<network::Network> network;
  uint32_t onMachine = 1, numberOnMachine = 0;
  uint32_t onCores = 1; ///< ranks that share this one's cores
  Status countNeighbours();
  bool stops = false;
};

} // namespace mt::train
#endif
