// Says the class of texts; see predict_text_to_text --help and docs/text_to_text.md.
#include <algorithm>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "examples/csv/csv_table.h"
#include "examples/text_to_text/prepared_rows.h"
#include "examples/text_to_text/text_rows.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/given_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/command_line/terminal_line.h"
#include "millrace/formats/error.h"
#include "millrace/formats/json/names.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/formats/utf8.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/worker_limit.h"
#include "millrace/trainer/metrics/confusion_matrix.h"
#include "millrace/trainer/models/t5_classifier.h"
#include "millrace/trainer/models/t5_pretrained.h"
#include "millrace/trainer/pipeline_source.h"
#include "millrace/trainer/predictor.h"
#include "millrace/trainer/run/local_copy.h"
#include "millrace/trainer/run/output_folder.h"
#include "millrace/trainer/run/tokenizer_files.h"
#include "millrace/trainer/stop_signals.h"

namespace {

using namespace millrace;

namespace po = boost::program_options;
using Json = nlohmann::ordered_json;

// The command line.
struct Options {
  std::string model = {};  // folder that train_text_to_text wrote, or one with several of which the best is taken
  std::string csv = {};    // the rows; empty: those of `rows`
  TextColumns columns = {};
  std::string rows = {};  // folder that prepare_text_to_text wrote
  size_t split = 2;       // of it
  std::string out = {};   // a CSV; empty: none is written
  int64_t batch = 32;
  int64_t show = 0;  // rows of which the text is printed
  int threads = 0;
  bool json = false;
};

std::optional<Options> parse_options(int argc, const char* const* argv) {
  Options options;
  std::string split = kSplitNames[options.split];
  po::options_description visible("options");
  // clang-format off
  visible.add_options()
      ("model", po::value(&options.model), "folder that train_text_to_text wrote: OUT/model, or OUT/best, of which the best is taken")
      ("csv", po::value(&options.csv), "texts, with classes or without");
  options.columns.add_to(visible);
  visible.add_options()
      ("rows", po::value(&options.rows), "in place of a CSV the rows of this folder, which prepare_text_to_text wrote")
      ("split", po::value(&split)->default_value(split), "of --rows: train, validation or test")
      ("out", po::value(&options.out), "CSV of the answers: id,class,word; of --rows the id is the number of the row")
      ("batch", whole_number(options.batch, {1, limits::kFew}), "rows that are predicted together")
      ("show", whole_number(options.show, {0, limits::kFew}), "first rows that are printed with what the model reads and says")
      ("threads", whole_number(options.threads, {0, limits::kThreads}), "0: one for each core. The answers do not depend on it")
      ("json", "one JSON object instead of text");
  // clang-format on
  const auto given = parse_command_line(argc, argv,
                                        {.name = "predict_text_to_text",
                                         .about = "Says the class of texts with a model that train_text_to_text wrote.",
                                         .usage = "--model DIR (--csv FILE | --rows DIR) [--out FILE] [options]"},
                                        visible);
  if (!given) return std::nullopt;
  if (options.model.empty()) refuse("--model is missing; see predict_text_to_text --help");
  if (options.csv.empty() == options.rows.empty()) {
    refuse("give either --csv or --rows; see predict_text_to_text --help");
  }
  if (options.rows.empty()) refuse_given(*given, {"split"}, "is of --rows");
  if (options.csv.empty()) TextColumns::refuse_in(*given, "is of --csv");
  const auto found = std::ranges::find(kSplitNames, split);
  if (found == kSplitNames.end()) refuse(fmt::format("--split is '{}', must be train, validation or test", split));
  options.split = static_cast<size_t>(found - kSplitNames.begin());
  options.columns.needs_label = was_given(*given, "class-column");
  require_different_files({{"csv", options.csv}, {"out", options.out}});
  options.json = given->contains("json");
  return options;
}

// Rows as the model reads them, with their class, and of a CSV their id.
Dataset rows_of(const Options& options, const TextEncoder& encoder, const std::string& tokenizer_file) {
  if (!options.rows.empty()) {
    const PreparedRows prepared(options.rows);
    if (Json(prepared.encoder().task()) != Json(encoder.task()) ||
        !is_same_tokenizer(prepared.tokenizer_file(), tokenizer_file)) {
      refuse(fmt::format(
          "the model was trained on rows of another tokenizer, other classes or another form than those in {}",
          options.rows));
    }
    return prepared.rows(options.split, /*labels=*/false);
  }
  return encoder.encoded(csv_rows(options.csv, options.columns, encoder.task(), /*needs_class=*/false))
      .select({"id", "class", "input_ids", "attention_mask"});
}

// What the model says, row by row, as it comes.
class Answers {
 public:
  Answers(const Options& options, const TextEncoder& encoder)
      : options_(options), encoder_(encoder), confusion_(encoder.task().names()) {
    if (options.out.empty()) return;
    file_ = open_output_anywhere(options.out);
    file_->write("id,class,word\n");
  }

  void take(const Batch& batch, const Predictions& predictions) {
    const auto tokens = predictions.values<int32_t>("token");
    const auto classes = predictions.values<int64_t>("class");
    const auto truths = batch.values<int64_t>("class");
    std::string lines;
    for (size_t i = 0; i < classes.size(); ++i, ++rows_) {
      const std::string id =
          options_.csv.empty() ? std::to_string(rows_) : std::string(batch.values<std::string_view>("id")[i]);
      const std::string word = encoder_.text_of({&tokens[i], 1});
      lines += fmt::format("{},{},{}\n", csv_field(id), classes[i], csv_field(word));
      confusion_.add(truths[i], classes[i]);
      if (rows_ < options_.show) show(batch, i, id, word, classes[i]);
    }
    if (file_) file_->write(lines);
  }
  void finish() {
    if (file_) file_->commit();
    Json json = confusion_.to_json();
    if (options_.show > 0) json["shown"] = shown_;
    std::cout << (options_.json ? json_line(json) + "\n" : confusion_.to_text());
  }
  int64_t rows() const { return rows_; }

 private:
  void show(const Batch& batch, size_t row, const std::string& id, const std::string& word, int64_t said) {
    const auto length = static_cast<size_t>(encoder_.task().max_length);
    const std::string text = encoder_.text_of(batch.values<int32_t>("input_ids").subspan(row * length, length));
    const int64_t truth = batch.values<int64_t>("class")[row];
    const auto name = [&](int64_t number) {
      return number == kNoClass ? Json() : Json(encoder_.task().names()[number]);
    };
    if (options_.json) {
      shown_.push_back({{"id", id}, {"text", text}, {"word", word}, {"class", name(said)}, {"is", name(truth)}});
      return;
    }
    std::cout << fmt::format("row {}: {}\n  the model says '{}', {}", printable(id), printable(text), printable(word),
                             said == kNoClass ? "no class" : name(said).get<std::string>());
    if (truth != kNoClass)
      std::cout << (said == truth ? ": right" : ": wrong, it is " + name(truth).get<std::string>());
    std::cout << "\n";
  }

  const Options& options_;
  const TextEncoder& encoder_;
  ConfusionMatrix confusion_;
  int64_t rows_ = 0;
  std::unique_ptr<OutputFile> file_;
  Json shown_ = Json::array();
};

int run(int argc, char** argv) {
  const auto options = parse_options(argc, argv);
  if (!options) return 0;
  const WorkerLimit limit(checked_threads(options->threads));
  const std::string folder = model_folder(local_copy(options->model), "train_text_to_text");
  const std::string tokenizer_file = folder + "/tokenizer.json";
  const TextEncoder encoder(load_text_task(folder), Tokenizer::load(tokenizer_file), tokenizer_file);
  const T5Classifier model(load_t5_config(folder), encoder.class_tokens());
  const Dataset rows = rows_of(*options, encoder, tokenizer_file);
  Predictor predictor(model, load_t5_weights(folder, model.t5()), {.threads = options->threads});
  Answers answers(*options, encoder);
  const StopSignals signals;
  std::optional<TerminalLine> line(std::in_place);
  Pipeline pipeline = rows.batch(options->batch).prefetch(2).start({.threads = options->threads});
  while (const std::optional<Batch> batch = pipeline.next()) {
    if (signals.requested()) {
      std::cerr << "predict_text_to_text: interrupted; nothing is written\n";
      return signals.exit_code();
    }
    answers.take(*batch, predictor.predict(global_batch(*batch).view));
    if (line->due()) line->show(fmt::format("{} rows", answers.rows()));
  }
  line.reset();
  answers.finish();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("predict_text_to_text", [&] { return run(argc, argv); });
}
