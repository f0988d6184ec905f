#include "tests/examples/quest/small_quest_run.h"

#include "tests/support/places.h"

namespace millrace::test {

std::vector<std::string> small_quest_preparation(const std::string& csv, const std::string& tokenizer,
                                                 const std::string& out) {
  return {kPrepareQuest,
          "--csv",
          csv,
          "--tokenizer",
          tokenizer,
          "--out",
          out,
          "--question-targets",
          "q_.*",
          "--answer-targets",
          "a_.*",
          "--joint-targets",
          "both_.*",
          "--folds",
          "2",
          "--max-question",
          "44",
          "--max-answer",
          "30",
          "--max-title",
          "10",
          "--threads",
          "2"};
}

std::vector<std::string> small_quest_training(const std::string& shards, const std::string& tokenizer,
                                              const std::string& out) {
  return {kTrainQuest, "--out",           out,       "--shards",
          shards,      "--tokenizer",     tokenizer, "--layers",
          "1",         "--hidden",        "16",      "--heads",
          "2",         "--global-batch",  "8",       "--steps",
          "12",        "--warmup-steps",  "2",       "--evaluate-every",
          "6",         "--report-every",  "1",       "--checkpoint-every",
          "4",         "--learning-rate", "0.01",    "--threads",
          "2"};
}

}  // namespace millrace::test
