// Warnings and notes for people, on standard error, through spdlog: `warning: ...`. Errors are not logged but
// returned (Status.h); the mains print them. Quiet programs lower the level.
#ifndef MT_RUNTIME_BASE_LOG_H
#define MT_RUNTIME_BASE_LOG_H

#include <spdlog/logger.h>

#include <string>

namespace mt {

/// The program's logger; safe from any thread.
spdlog::logger &log();
/// What every message begins with from now on: `warning: rank 3: ...`. Of processes that speak in one place.
void nameLog(const std::string &speaker);

} // namespace mt
#endif
