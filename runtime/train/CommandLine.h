// The command line of mtrun as options: flags, their checks, help and examples; with --recipe what a file says, too
// (RecipeFile.h). What is said there runs in Trainer.h, Export.h, RunReport.h, Tokenize.h and runtime/probe/Probe.h.
#ifndef MT_RUNTIME_TRAIN_COMMANDLINE_H
#define MT_RUNTIME_TRAIN_COMMANDLINE_H

#include "runtime/probe/Probe.h"
#include "runtime/train/Options.h"

#include <string>
#include <variant>

namespace mt::train {

/// Why there is nothing to run: help or version (status 0, to standard output) or a usage error (status 2, to standard
/// error).
struct Said {
  int status = 0;
  std::string text;
};

using Command = std::variant<TrainOptions, EvalOptions, SampleOptions, ExportOptions, ReportOptions, TokenizeOptions,
                             probe::ProbeOptions, Said>;

/// `version` is what --version prints.
Command parseCommandLine(int count, const char *const *words, const std::string &version);

} // namespace mt::train
#endif
