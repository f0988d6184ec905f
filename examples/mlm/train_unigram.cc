// Learns the tokenizer of a masked language model from text; see train_unigram --help.
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iostream>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>

#include "examples/mlm/train_unigram_options.h"
#include "examples/mlm/train_unigram_report.h"
#include "millrace/command_line/command_line.h"
#include "millrace/formats/error.h"
#include "millrace/formats/storage/atomic_directory.h"
#include "millrace/formats/storage/remote/routed_storage.h"

namespace {

using namespace millrace;

// Before the work and not after it, as far as it can be seen.
void require_writable_folder(const std::string& folder) {
  if (RemoteStorage::opens(folder)) return static_cast<void>(open_output_anywhere(path_in(folder, "tokenizer.json")));
  make_folder(folder);
  if (::access(folder.c_str(), W_OK) == 0) return;
  throw ErrorException(ErrorCode::kIo, fmt::format("cannot write to '{}': {}", folder, std::strerror(errno)));
}

int run(int argc, char** argv) {
  const auto options = parse_train_unigram_options(argc, argv);
  if (!options) return 0;
  const auto begin = std::chrono::steady_clock::now();
  TextCorpus corpus(options->corpus);
  require_writable_folder(options->out);
  UnigramTrainer trainer(options->training);
  std::optional<UnigramProgressLine> progress(std::in_place);
  for (std::string line; corpus.next(line);) {
    trainer.add(line);
    progress->counting(corpus.fraction_read(), trainer);
  }
  progress->learning(trainer);
  const Tokenizer tokenizer = trainer.train();
  const std::string path = path_in(options->out, "tokenizer.json");
  write_anywhere(path, tokenizer.to_json());
  progress.reset();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const UnigramReport report = {.path = path,
                                .vocab_size = tokenizer.size(),
                                .words = trainer.num_words(),
                                .distinct_words = trainer.num_distinct_words(),
                                .corpus = corpus.report(),
                                .seconds = took.count()};
  std::cout << (options->json ? to_json(report) : to_text(report)) << std::flush;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("train_unigram", [&] { return run(argc, argv); });
}
