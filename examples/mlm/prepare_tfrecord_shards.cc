// Turns text into the shards that train_mlm reads; see prepare_tfrecord_shards --help.
#include <chrono>
#include <iostream>

#include "examples/mlm/prepare_options.h"
#include "examples/mlm/prepare_report.h"
#include "millrace/command_line/command_line.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/worker_limit.h"
#include "millrace/tokenizer/tokenizer.h"
#include "millrace/trainer/stop_signals.h"

namespace {

int run(int argc, char** argv) {
  using namespace millrace;
  auto options = parse_prepare_options(argc, argv);
  if (!options) return 0;
  const auto begin = std::chrono::steady_clock::now();
  // As many workers as asked for, also on fewer cores.
  const WorkerLimit limit(checked_threads(options->preparation.threads));
  const RowEncoder encoder = encoder_of(Tokenizer::load(options->tokenizer), options->tokenizer);
  const StopSignals signals;  // before, a signal ends the process, whatever it waits for
  options->corpus.stop_requested = [&] { return signals.requested(); };
  TextCorpus corpus(options->corpus);
  std::optional<PreparationProgressLine> progress(std::in_place);
  std::string line;
  const RowSource rows = [&]() -> std::optional<std::string_view> {
    if (!corpus.next(line)) return std::nullopt;
    progress->set_fraction_read(corpus.fraction_read());
    return line;
  };
  options->preparation.on_progress = [&](const PreparationProgress& now) { progress->show(now); };
  options->preparation.stop_requested = [&] { return signals.requested(); };
  const auto statistics = prepare_shards(rows, encoder, options->out, options->preparation);
  progress.reset();
  if (!statistics) {
    std::cerr << "prepare_tfrecord_shards: interrupted; '" << options->out << "' is as it was\n";
    return signals.exit_code();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const auto report = options->json ? report_json : report_text;
  std::cout << report(*options, *statistics, corpus.report(), took.count()) << std::flush;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("prepare_tfrecord_shards", [&] { return run(argc, argv); });
}
