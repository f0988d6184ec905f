
#include <algorithm>

#include <fmt/format.h>

#include "examples/text_to_text/preparation.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/given_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/error.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

namespace po = boost::program_options;

constexpr const char* kAbout =
    "Turns texts with classes into rows for a T5 that says a word for the class of a text.\n\n"
    "The folder --out then holds train-N.tfrecord, validation-N.tfrecord and test-N.tfrecord (N: rows),\n"
    "statistics.json, and tokenizer.json. An earlier set there is replaced when the new one is whole.";

constexpr int64_t kMostTokens = int64_t{1} << 16;

// Classes and words as they were given, or the question-quality data's.
std::vector<TextClass> classes_of(std::vector<std::string> names, std::vector<std::string> words, bool is_csv) {
  if (names.empty() && is_csv) {
    names = {"LQ_CLOSE", "LQ_EDIT", "HQ"};
    if (words.empty()) words = {"none", "low", "high"};
  }
  if (words.empty()) words = names;
  if (names.empty() && !words.empty()) refuse("--words needs --classes: which word is which section's is not known");
  if (names.size() != words.size()) {
    refuse(fmt::format("there are {} --classes and {} --words", names.size(), words.size()));
  }
  std::vector<TextClass> classes;
  for (size_t i = 0; i < names.size(); ++i) classes.push_back({names[i], words[i]});
  return classes;
}

}  // namespace

std::optional<PreparationOptions> parse_preparation_options(int argc, const char* const* argv) {
  PreparationOptions preparation;
  TextTask& task = preparation.task;
  std::vector<std::string> names;
  std::vector<std::string> words;
  std::string preset;
  std::string body;
  po::options_description visible("options");
  // clang-format off
  visible.add_options()
      ("csv", po::value(&preparation.csv[0]), "texts with classes, as Id,Title,Body,Tags,CreationDate,Y of the question-quality data")
      ("validation-csv", po::value(&preparation.csv[1]), "a CSV of the validation rows; default: a share of --csv")
      ("test-csv", po::value(&preparation.csv[2]), "the same of the test rows");
  preparation.columns.add_to(visible);
  visible.add_options()
      ("body", po::value(&body), "what bodies are: html, which is stripped, or text. Default: html of a CSV")
      ("packages", po::value(&preparation.packages.path),
       "in place of a CSV this list of packages, as examples/packages/fetch.sh writes it: the class is the section")
      ("sections", whole_number(preparation.packages.num_sections, {2, limits::kFew}),
       "so many sections, the most frequent ones, unless --classes names some")
      ("rows-per-class", whole_number(preparation.packages.packages_per_section, {1, limits::kRows}), "packages of a section, at most")
      ("classes", po::value(&names)->multitoken(), "the classes. Default of a CSV: LQ_CLOSE LQ_EDIT HQ")
      ("words", po::value(&words)->multitoken(),
       "what the model says for them, each one token. Default of a CSV: none low high; of sections their names")
      ("out", po::value(&preparation.out), "folder of the rows, local or s3://BUCKET/FOLDER, gs://…; made when it is not there")
      ("tokenizer", po::value(&preparation.tokenizer),
       "tokenizer.json of a T5, or its folder. Default: one is learnt from the rows to train on")
      ("vocab-size", whole_number(preparation.vocab_size, {104, 10'000'000}), "tokens of one that is learnt")
      ("prefix", po::value(&task.prefix), "in front of each text. Default of a CSV 'quality: ', of packages 'section: '")
      ("preset", po::value(&preset), "original: --max-length 512 --head 255")
      ("max-length", whole_number(task.max_length, {4, kMostTokens}), "tokens of a row; shorter ones are padded")
      ("head", whole_number(task.head, {1, kMostTokens}),
       "tokens that stay in front of <extra_id_1> in a longer one; not given, half of --max-length less 1")
      ("validation-share", real_number(preparation.shares.validation, {0, 1}), "of the rows without a CSV of their own")
      ("test-share", real_number(preparation.shares.test, {0, 1}), "the same of the test rows")
      ("seed", whole_number(preparation.seed, {0, limits::kAny}), "of splits, chosen packages, and a tokenizer's words")
      ("threads", whole_number(preparation.threads, {0, limits::kThreads}), "0: one for each core. The files do not depend on it")
      ("json", "one JSON object instead of text");
  // clang-format on
  const auto given = parse_command_line(
      argc, argv,
      {.name = "prepare_text_to_text", .about = kAbout, .usage = "(--csv FILE | --packages FILE) --out DIR [options]"},
      visible);
  if (!given) return std::nullopt;
  const bool is_csv = !preparation.csv[0].empty();
  if (is_csv == !preparation.packages.path.empty()) {
    refuse("give either --csv or --packages; see prepare_text_to_text --help");
  }
  if (preparation.out.empty()) refuse("--out is missing; see prepare_text_to_text --help");
  if (is_csv) refuse_given(*given, {"sections", "rows-per-class"}, "goes with --packages");
  if (!is_csv) {
    refuse_given(*given, {"validation-csv", "test-csv", "body"}, "goes with --csv");
    TextColumns::refuse_in(*given, "goes with --csv");
  }
  if (!names.empty()) refuse_given(*given, {"sections"}, "says nothing beside --classes, which names them");
  if (!preparation.tokenizer.empty())
    refuse_given(*given, {"vocab-size"}, "is of a new tokenizer, and --tokenizer gives one");
  if (!preparation.csv[1].empty()) refuse_given(*given, {"validation-share"}, "says nothing beside --validation-csv");
  if (!preparation.csv[2].empty()) refuse_given(*given, {"test-share"}, "says nothing beside --test-csv");
  for (const auto& [option, texts] :
       {std::pair("prefix", std::vector{task.prefix}), {"classes", names}, {"words", words}}) {
    if (!std::ranges::all_of(texts, is_valid_utf8)) refuse(fmt::format("--{} is not UTF-8", option));
  }
  if (preparation.shares.validation + preparation.shares.test >= 1) {
    refuse("--validation-share and --test-share leave no row to train on");
  }
  if (!preset.empty()) {
    if (preset != "original") refuse(fmt::format("--preset is '{}', must be original", preset));
    refuse_given(*given, {"max-length", "head"}, "is what --preset has");
    task.max_length = 512;
  }
  if (!body.empty() && body != "html" && body != "text") {
    refuse(fmt::format("--body is '{}', must be html or text", body));
  }
  task.html = body.empty() ? is_csv : body == "html";
  if (!given->contains("prefix")) task.prefix = is_csv ? "quality: " : "section: ";
  if (!was_given(*given, "head")) task.head = task.max_length / 2 - 1;
  task.classes = classes_of(std::move(names), std::move(words), is_csv);
  preparation.json = given->contains("json");
  return preparation;
}

}  // namespace millrace
