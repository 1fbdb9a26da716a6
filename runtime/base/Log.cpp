#include "runtime/base/Log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace mt {

spdlog::logger &log() {
  static spdlog::logger logger = [] {
    spdlog::logger made("mt", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made.set_pattern("%^%l%$: %v");
    return made;
  }();
  return logger;
}

void nameLog(const std::string &speaker) { log().set_pattern("%^%l%$: " + speaker + ": %v"); }

} // namespace mt
