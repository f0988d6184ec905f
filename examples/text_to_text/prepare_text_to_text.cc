// Turns texts with classes into rows for a T5; see prepare_text_to_text --help and docs/text_to_text.md.
#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "examples/text_to_text/preparation.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/terminal_line.h"
#include "millrace/formats/json/names.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/worker_limit.h"
#include "millrace/trainer/stop_signals.h"

namespace {

using namespace millrace;

std::string to_text(const PreparationReport& report) {
  std::string text;
  for (const auto& [why, count] : report.left_out) text += fmt::format("{:>8} packages left out: {}\n", count, why);
  text += fmt::format("{:<12}{:>8}{:>12}{:>10}", "split", "rows", "truncated", "padding");
  for (const TextClass& one : report.task.classes) text += fmt::format("{:>{}}", one.name, one.name.size() + 3);
  for (size_t i = 0; i < kSplitNames.size(); ++i) {
    const SplitReport& split = report.splits[i];
    const auto places = static_cast<double>(std::max<int64_t>(1, split.rows * report.task.max_length));
    text += fmt::format("\n{:<12}{:>8}{:>12}{:>9.1f}%", kSplitNames[i], split.rows, split.truncated,
                        split.rows == 0 ? 0 : 100 * (1 - static_cast<double>(split.tokens) / places));
    for (size_t c = 0; c < split.of_class.size(); ++c) {
      text += fmt::format("{:>{}}", split.of_class[c], report.task.classes[c].name.size() + 3);
    }
  }
  return text + fmt::format("\nrows of {} tokens, a vocabulary of {}\n", report.task.max_length, report.vocab_size);
}

int run(int argc, char** argv) {
  const auto options = parse_preparation_options(argc, argv);
  if (!options) return 0;
  const WorkerLimit limit(checked_threads(options->threads));
  const StopSignals signals;
  std::optional<TerminalLine> line(std::in_place);
  const auto show = [&](int64_t rows) {
    if (line->due()) line->show(fmt::format("{} rows", rows));
  };
  const auto report = prepare(*options, show, [&] { return signals.requested(); });
  line.reset();
  if (!report) {
    std::cerr << "prepare_text_to_text: interrupted; '" << options->out << "' is as it was\n";
    return signals.exit_code();
  }
  const std::string text = to_text(*report) + "written to " + options->out;
  std::cout << (options->json ? json_line(nlohmann::ordered_json(*report)) : text) << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("prepare_text_to_text", [&] { return run(argc, argv); });
}
