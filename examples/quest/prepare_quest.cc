// Turns questions with their answers into shards; see prepare_quest --help and docs/quest.md.
#include <chrono>
#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "examples/csv/csv_table.h"
#include "examples/packages/tagged_packages.h"
#include "examples/quest/quest_set.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/given_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/command_line/terminal_line.h"
#include "millrace/formats/json/names.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/worker_limit.h"
#include "millrace/trainer/stop_signals.h"

namespace {

using namespace millrace;
namespace po = boost::program_options;

constexpr const char* kAbout =
    "Turns questions with their answers into the TFRecord shards of a cross validation, for each fold one to train\n"
    "on and one to validate on. Shards of an earlier run are replaced when all new ones are written.";

struct Options {
  std::string csv;  // either this or `packages`
  std::string packages;
  std::string tokenizer;
  std::string out;
  HeadPatterns heads = kCompetitionHeads;
  TaggedPackagesOptions choice;
  std::string test_csv;
  std::string other_texts;
  std::string rows_to_predict;
  SequenceLimits limits;
  QuestSetOptions set;
  bool json = false;
};

void check(const Options& options, const po::variables_map& given) {
  require(!options.tokenizer.empty(), "--tokenizer is needed");
  require(!options.out.empty(), "--out is needed");
  require(options.csv.empty() != options.packages.empty(), "one of --csv and --packages is needed, and not both");
  if (!options.csv.empty()) {
    refuse_given(given, {"rows", "tags", "seed", "test-csv", "test-rows", "other-texts"}, "is of --packages");
  } else {
    refuse_given(given, {"question-targets", "answer-targets", "joint-targets"}, "is of --csv");
  }
  for (const char* name : {"max-question", "max-answer", "max-title"}) {
    require(!given.contains("preset") || !was_given(given, name),
            fmt::format("--preset and --{} do not go together", name));
  }
  require(options.test_csv.empty() == (options.choice.test_rows == 0), "--test-csv and --test-rows go together");
  require_different_files({{"packages", options.packages},
                           {"tokenizer", options.tokenizer},
                           {"test-csv", options.test_csv},
                           {"other-texts", options.other_texts}});
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  po::options_description visible("options");
  const auto text = [](std::string& target) { return po::value(&target); };
  const auto limit = [](int64_t& target) { return whole_number(target, {1, int64_t{1} << 20}); };
  const auto pattern = [&](size_t head) { return text(options.heads[head])->default_value(kCompetitionHeads[head]); };
  const auto set_preset = [&options](const std::string& name) {
    require(name == "original", fmt::format("--preset is '{}', must be original", name));
    options.limits = kOriginalLimits;
  };
  // clang-format off
  visible.add_options()
      ("csv", text(options.csv), "rows: question_title, question_body, answer, targets in [0, 1], perhaps qa_id")
      ("packages", text(options.packages), "rows: tagged packages of this list, as examples/packages/fetch.sh writes it")
      ("tokenizer", text(options.tokenizer), "tokenizer.json of the encoder")
      ("out", text(options.out), "folder of the shards, local or s3://BUCKET/FOLDER, gs://…; made when it is not there")
      ("question-targets", pattern(0), "columns of --csv that the question's head says: a regular expression over whole "
       "names; empty: none")
      ("answer-targets", pattern(1), "those of the answer's head")
      ("joint-targets", pattern(2), "those of the head of both")
      ("rows", whole_number(options.choice.rows, {2, limits::kRows}), "of --packages, drawn with --seed")
      ("tags", whole_number(options.choice.tags, {6, 1000}), "of --packages: so many of the most frequent tags are the "
       "targets, 21 of 30 the question's, 5 the answer's, 4 of both")
      ("seed", whole_number(options.choice.seed, {0, limits::kAny}), "of the choice")
      ("test-rows", whole_number(options.choice.test_rows, {0, limits::kRows}), "of --packages: so many rows of other "
       "sources, bodies and answers, for predictions")
      ("test-csv", text(options.test_csv), "the file that they are written to")
      ("other-texts", text(options.other_texts), "of --packages: write the texts of all other sources to this file, a "
       "line each: what an encoder may learn from without having seen a row")
      ("rows-to-predict", text(options.rows_to_predict), "a CSV for predict_quest: refuse what it would refuse, early")
      ("folds", whole_number(options.set.folds, {2, 1000}), "of the cross validation; rows of one question, of one "
       "source package, or of packages with the same body or answer, are in one")
      ("preset", po::value<std::string>()->notifier(set_preset), "original: the competition's limits, 416, 480 and 64")
      ("max-question", limit(options.limits.question), "tokens of a question's sequence")
      ("max-answer", limit(options.limits.answer), "tokens of an answer's")
      ("max-title", limit(options.limits.title), "tokens of the title in a question's")
      ("unpadded", "write rows as long as they are, for train_quest --dynamic")
      ("threads", whole_number(options.set.threads, {0, limits::kThreads}),
       "threads that encode; 0: one for each core. The files do not depend on it")
      ("json", "one JSON object instead of text");
  // clang-format on
  const auto given = parse_command_line(argc, argv,
                                        {.name = "prepare_quest",
                                         .about = kAbout,
                                         .usage = "--csv FILE|--packages FILE --tokenizer FILE --out DIR [options]"},
                                        visible);
  if (!given) return std::nullopt;
  check(options, *given);
  options.set.padded = !given->contains("unpadded");
  options.json = given->contains("json");
  return options;
}

std::vector<ShardSetFile> other_files(const Options& options, const TaggedPackages& packages) {
  std::vector<ShardSetFile> files;
  if (!options.test_csv.empty()) {
    std::string text = "qa_id,question_title,question_body,answer\n";
    for (const auto& row : packages.test) text += csv_record({row.name, row.synopsis, row.paragraphs[0], row.answer()});
    files.push_back({.name = options.test_csv, .text = std::move(text)});
  }
  if (options.other_texts.empty()) return files;
  files.push_back({.name = options.other_texts, .text = fmt::format("{}\n", fmt::join(packages.other_texts, "\n"))});
  return files;
}

void print_report(const Options& options, const TaggedPackages& packages, const QuestStatistics& statistics,
                  double seconds) {
  const auto mean = [&](int64_t sum) { return static_cast<double>(sum) / static_cast<double>(statistics.rows); };
  const SequenceLimits& limits = statistics.format.limits;
  const double padding = 1 - mean(statistics.question_tokens + statistics.answer_tokens) /
                                 static_cast<double>(limits.question + limits.answer);
  if (options.json) {
    auto json = nlohmann::ordered_json::parse(to_json(statistics));
    json.update(nlohmann::ordered_json{{"test_rows", packages.test.size()},
                                       {"untagged", packages.untagged},
                                       {"without_second_paragraph", packages.without_second_paragraph},
                                       {"not_drawn", packages.not_drawn},
                                       {"padding_share", padding},
                                       {"seconds", seconds}});
    std::cout << json_line(json) << "\n";
    return;
  }
  if (options.csv.empty()) {
    std::cout << fmt::format(
        "left out: {} packages without tags, {} without a second paragraph, {} not drawn; {} test rows\n",
        packages.untagged, packages.without_second_paragraph, packages.not_drawn, packages.test.size());
  }
  std::cout << fmt::format(
      "{} rows in {} groups of at most {}, {} targets; by fold {}\n{:.1f} tokens a question, {:.1f} an answer, "
      "{:.1f}% padding; {} rows had too long a text\nwritten to {} in {:.1f} s\n",
      statistics.rows, statistics.groups, statistics.largest_group, statistics.format.targets.size(),
      fmt::join(statistics.fold_rows, " "), mean(statistics.question_tokens), mean(statistics.answer_tokens),
      100 * padding, statistics.cut_rows, options.out, seconds);
}

int run(int argc, char** argv) {
  auto options = parse(argc, argv);
  if (!options) return 0;
  const auto begin = std::chrono::steady_clock::now();
  const WorkerLimit limit(checked_threads(options->set.threads));
  const SequenceEncoder encoder(options->tokenizer, options->limits);
  if (!options->rows_to_predict.empty()) {  // what would end a prediction after all the training
    for (const QuestRow& row : read_csv_rows(options->rows_to_predict, std::nullopt).rows) encoder.encode(row);
  }
  TaggedPackages packages;
  QuestRows rows;
  if (options->csv.empty()) {
    packages = choose_tagged_packages(read_packages(options->packages), options->choice);
    rows = rows_of_packages(packages.rows, packages.tags);
  } else {
    rows = read_csv_rows(options->csv, options->heads);
  }
  const StopSignals signals;
  options->set.stop_requested = [&] { return signals.requested(); };
  options->set.elsewhere = other_files(*options, packages);
  std::optional<TerminalLine> line(std::in_place);
  options->set.on_progress = [&](int64_t done) {
    if (line->due()) line->show(fmt::format("{} of {} rows", done, rows.rows.size()));
  };
  const auto statistics = write_quest_set(rows, encoder, options->out, options->set);
  line.reset();
  if (!statistics) {
    std::cerr << "prepare_quest: interrupted; '" << options->out << "' is as it was\n";
    return signals.exit_code();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  print_report(*options, packages, *statistics, took.count());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("prepare_quest", [&] { return run(argc, argv); });
}
