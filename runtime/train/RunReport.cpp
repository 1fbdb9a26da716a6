#include "runtime/train/RunReport.h"

#include "runtime/base/AtomicFile.h"
#include "runtime/base/Files.h"
#include "runtime/base/Html.h"
#include "runtime/train/ReportSections.h"
#include "runtime/train/ReportTemplate.h"
#include "runtime/train/RunFolder.h"

#include <filesystem>

namespace mt::train {
namespace {

constexpr const char *kReportFile = "report.html";

} // namespace

std::string reportPage(const RunHistory &history) {
  nlohmann::ordered_json charts = nlohmann::ordered_json::array();
  std::string page(kReportHead);
  page += escapeHtml(titleOf(history));
  page += kReportStyle;
  page += headSection(history) + curveSection(history, charts) + timeSection(history) + memorySection(history) +
          sampleSection(history) + noteSection(history) + factSection(history);
  page +=
      fmt::format("</main>\n<script type=\"application/json\" id=\"charts\">{}</script>\n<script>", scriptJson(charts));
  page += kReportScript;
  return page + "</script>\n</body>\n</html>\n";
}

Status writeReport(const std::string &folder, const RunHistory &history) {
  return writeFileAtomically(fmt::format("{}/{}", folder, kReportFile), reportPage(history));
}

Status makeReport(const ReportOptions &options) {
  std::error_code error;
  const bool isFolder = std::filesystem::is_directory(options.from, error);
  const std::string folder = isFolder ? options.from : folderOf(options.from);
  const std::string metrics = isFolder ? fmt::format("{}/{}", folder, kMetricsFile) : options.from;
  MT_ASSIGN(const RunHistory history, RunHistory::read(metrics));
  const std::string output = options.output.empty() ? fmt::format("{}/{}", folder, kReportFile) : options.output;
  std::vector<InputFile> inputs = {{"the run's history", metrics}};
  for (const char *name : {kRunFile, kRecipeFile})
    inputs.push_back({"what the run goes on by", folder + "/" + name});
  MT_TRY(keepInputs("-o", output, inputs));
  MT_TRY(writeFileAtomically(output, reportPage(history)));
  return writeAbout(output, fmt::format("{}: step {}\n", output, history.step));
}

} // namespace mt::train
