// mtc's command line: which subcommand, and its options. Parsing only; mtc.cpp runs what comes back.
#ifndef MT_TOOLS_MTC_COMMANDLINE_H
#define MT_TOOLS_MTC_COMMANDLINE_H
#include "compiler/pipeline/Options.h"

#include <string>

namespace mt {

struct MtcCommand {
  enum Kind { compile, check, dump, diff, fit, emit, target, said } kind = said;
  pipeline::Options options;     ///< compile, check, fit
  std::string emitPhase;         ///< of compile; empty: plan
  std::string output;            ///< -o
  std::string file, other;       ///< dump, diff, emit, target
  std::string format = "text";   ///< dump
  std::string text;              ///< said: help, version or a usage error
  int status = 0;                ///< said
};

MtcCommand parseMtc(int argc, char **argv, const std::string &version);

} // namespace mt
#endif
