#include "runtime/train/Schedules.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace mt::train {
namespace {

struct Schedule {
  std::string_view name;
  Decline decline;                                   ///< of one with a decay of its own: --decay-shape says
  bool least = false, cycles = false, decay = false; ///< which options it reads
};

constexpr Schedule kSchedules[] = {{.name = "constant", .decline = Decline::constant},
                                   {.name = "linear", .decline = Decline::linear, .least = true},
                                   {.name = "cosine", .decline = Decline::cosine, .least = true, .cycles = true},
                                   {.name = "wsd", .decline = Decline::cosine, .least = true, .decay = true},
                                   {.name = "inverse-sqrt", .decline = Decline::inverseSqrt}};

struct Shape {
  std::string_view name;
  Decline decline;
};

constexpr Shape kShapes[] = {{"linear", Decline::linear}, {"cosine", Decline::cosine}, {"1-sqrt", Decline::root}};

template <typename Entry, size_t kCount> std::vector<std::string> namesOf(const Entry (&list)[kCount]) {
  std::vector<std::string> names;
  for (const Entry &entry : list)
    names.emplace_back(entry.name);
  return names;
}

/// An entry of a name that the command line has checked; what a checkpoint says may be anything.
template <typename Entry, size_t kCount>
Result<Entry> find(const Entry (&list)[kCount], std::string_view option, const std::string &name) {
  for (const Entry &entry : list)
    if (entry.name == name)
      return entry;
  return fail("{} {}: there are {}", option, name, fmt::join(namesOf(list), ", "));
}

/// What is said must be read.
Status checkReads(const Schedule &schedule, const RecipeOptions &said) {
  struct Option {
    std::string_view name;
    bool isSaid;
    bool Schedule::*reads;
  };
  const Option options[] = {{"--min-lr", said.leastRate.has_value(), &Schedule::least},
                            {"--lr-cycles", said.cycles.has_value(), &Schedule::cycles},
                            {"--decay-steps", said.decaySteps.has_value(), &Schedule::decay},
                            {"--decay-shape", said.decayShape.has_value(), &Schedule::decay}};
  for (const auto &[name, isSaid, reads] : options) {
    if (!isSaid || schedule.*reads)
      continue;
    std::vector<std::string_view> readers;
    for (const Schedule &other : kSchedules)
      if (other.*reads)
        readers.push_back(other.name);
    return fail("{}: --lr-schedule {} does not read it: leave it out, or choose {}", name, schedule.name,
                fmt::join(readers, ", "));
  }
  return Status();
}

Status checkLeast(const RecipeOptions &all, const RecipeOptions &said) {
  if (*all.leastRate <= *all.rate)
    return Status();
  if (said.rate && !said.leastRate)
    return fail("--lr {} is below the run's least rate, {}, which stays unless said otherwise: say --min-lr too",
                *all.rate, *all.leastRate);
  if (said.leastRate && !said.rate)
    return fail("--min-lr {} is above the run's rate, {}, which stays unless said otherwise: say --lr too",
                *all.leastRate, *all.rate);
  return fail("--min-lr {} is above --lr {}", *all.leastRate, *all.rate);
}

/// Steps at the peak, between warm-up and decay.
Result<int64_t> stableOf(const RecipeOptions &all) {
  const int64_t steps = *all.steps, left = std::max<int64_t>(steps - *all.warmup, 0);
  if (steps > 0 && all.decaySteps.value_or(0) > left)
    return fail("--decay-steps {} and --warmup {} are more than the {} steps of the run: say fewer, or more --steps",
                *all.decaySteps, *all.warmup, steps);
  return left - std::min(left, all.decaySteps.value_or(std::max<int64_t>(steps / 5, 1)));
}

} // namespace

std::vector<std::string> scheduleNames() { return namesOf(kSchedules); }
std::vector<std::string> decayShapeNames() { return namesOf(kShapes); }

Result<LearningRate> rateOf(const RecipeOptions &all, const RecipeOptions &said) {
  MT_ASSIGN(const Schedule schedule, find(kSchedules, "--lr-schedule", *all.schedule));
  MT_TRY(checkReads(schedule, said));
  LearningRate rate{.peak = *all.rate, .decline = schedule.decline, .warmup = *all.warmup, .steps = *all.steps};
  if (schedule.least) {
    MT_TRY(checkLeast(all, said));
    rate.least = *all.leastRate;
  }
  if (schedule.cycles)
    rate.cycles = *all.cycles;
  if (schedule.decay) {
    MT_ASSIGN(const Shape shape, find(kShapes, "--decay-shape", *all.decayShape));
    rate.decline = shape.decline;
    MT_ASSIGN(rate.stable, stableOf(all));
  }
  return rate;
}

void dropUnread(RecipeOptions &all) {
  const Result<Schedule> schedule = find(kSchedules, "--lr-schedule", all.schedule.value_or("constant"));
  if (!schedule)
    return;
  if (!schedule->least)
    all.leastRate.reset();
  if (!schedule->cycles)
    all.cycles.reset();
  if (!schedule->decay) {
    all.decaySteps.reset();
    all.decayShape.reset();
  }
}

} // namespace mt::train
