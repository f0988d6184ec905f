// Says how good questions and answers are with the models of all folds; see predict_quest --help and docs/quest.md.
#include <algorithm>
#include <iostream>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "examples/csv/csv_table.h"
#include "examples/quest/quest_data.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/given_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/command_line/terminal_line.h"
#include "millrace/formats/json/names.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/worker_limit.h"
#include "millrace/trainer/checkpoint/parameter_file.h"
#include "millrace/trainer/metrics/ensemble.h"
#include "millrace/trainer/models/roberta_pretrained.h"
#include "millrace/trainer/run/cross_validation.h"
#include "millrace/trainer/run/local_copy.h"
#include "millrace/trainer/run/predicted_rows.h"
#include "millrace/trainer/stop_signals.h"

namespace {

using namespace millrace;
namespace po = boost::program_options;

const std::map<std::string, Ensemble> kEnsembles = {
    {"logits", Ensemble::kLogits}, {"probabilities", Ensemble::kProbabilities}, {"ranks", Ensemble::kRanks}};

struct Options {
  std::string models = "quest";
  std::vector<int64_t> folds;  // empty: all
  std::string shards;          // empty: no binning, and no figures
  std::string csv;             // empty: no submission
  std::string out;
  Ensemble ensemble = Ensemble::kLogits;
  bool binning = true;
  int64_t show = 3;
  int64_t global_batch = 64;
  int threads = 0;
  bool json = false;
  std::function<void(int64_t fold, int64_t rows)> on_progress;  // so many are predicted with the model of a fold
};

struct Interrupted {};  // thrown where a signal has come

struct Models {
  std::vector<FoldModel> best = {};
  std::vector<int64_t> folds = {};  // of these
  QuestFormat format = {};          // of all

  const std::string& first() const { return best.front().folder; }
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  const auto set_ensemble = [&options](const std::string& name) {
    require(kEnsembles.contains(name), fmt::format("--ensemble is '{}', must be logits, probabilities or ranks", name));
    options.ensemble = kEnsembles.at(name);
  };
  const auto set_folds = [&options](const std::vector<std::string>& texts) {
    options.folds = parse_folds("fold", texts);
  };
  po::options_description visible("options");
  // clang-format off
  visible.add_options()
      ("models", po::value(&options.models)->default_value(options.models), "OUT of train_quest")
      ("fold", po::value<std::vector<std::string>>()->composing()->notifier(set_folds), "with the model of this fold; may "
       "be repeated (default: all, of which none may be missing)")
      ("shards", po::value(&options.shards), "the shards that the models were trained on: print the rank correlation of "
       "each fold's validation rows and target, and choose by them how predictions are binned")
      ("csv", po::value(&options.csv), "rows to predict: qa_id, question_title, question_body, answer")
      ("out", po::value(&options.out), "the CSV with the predictions (default: MODELS/submission.csv)")
      ("ensemble", po::value<std::string>()->default_value("logits")->notifier(set_ensemble),
       "what is averaged over the models: logits, probabilities or ranks")
      ("no-binning", "leave predictions as they are")
      ("show", whole_number(options.show, {0, limits::kFew}), "print what is said of so many rows of --csv")
      ("global-batch", whole_number(options.global_batch, {1, limits::kFew}), "rows at a time")
      ("threads", whole_number(options.threads, {0, limits::kThreads}), "0: one for each core")
      ("json", "one JSON object instead of text");
  // clang-format on
  const auto given = parse_command_line(argc, argv,
                                        {.name = "predict_quest",
                                         .about = "Predicts with the best models of all folds of train_quest.",
                                         .usage = "[--shards DIR] [--csv FILE] [options]"},
                                        visible);
  if (!given) return std::nullopt;
  options.binning = !given->contains("no-binning") && !options.shards.empty();
  options.json = given->contains("json");
  require(!options.shards.empty() || !options.csv.empty(), "nothing to do: give --csv FILE, or --shards DIR, or both");
  if (options.out.empty()) options.out = options.models + "/submission.csv";
  require_different_files({{"csv", options.csv}, {"out", options.out}});
  return options;
}

Models find_models(const Options& options) {
  Models models{.best = best_models_of_folds(local_copy(options.models), options.folds, "train_quest")};
  models.format = read_quest_format(models.first());
  for (const auto& [fold, folder] : models.best) {
    models.folds.push_back(fold);
    read_quest_format(folder).check_same(models.format, folder, models.first());
    models.format.check_tokenizer(folder + "/tokenizer.json", folder);
  }
  require(!options.folds.empty() || std::ssize(models.folds) == models.format.folds,
          fmt::format("{} has models of {} of {} folds ({}): train the others, or name these with --fold",
                      options.models, models.folds.size(), models.format.folds, fmt::join(models.folds, " ")));
  return models;
}

PredictedRows say(const Options& options, const Models& models, const FoldModel& best, const Dataset& batches) {
  const QuestionAnswerRoberta model(load_roberta_config(best.folder), models.format.by_head());
  return predict_rows(model, load_parameters(best.folder, model.layout()).span(), batches, "logits", options.threads,
                      [&](int64_t rows) { options.on_progress(best.fold, rows); });
}

// Of rows that the folds' models have not seen, on the scale of the predictions that are binned.
BinningGain gain_of(const Options& options, const Models& models) {
  const QuestStatistics set = read_quest_set(options.shards);
  set.format.check_same(models.format, options.shards, models.first());
  const auto columns = std::ssize(set.format.targets);
  std::vector<FoldScores> folds;
  for (const FoldModel& best : models.best) {
    const QuestData data(options.shards, set, best.fold,
                         {.global_batch = options.global_batch, .dynamic = !set.padded});
    const PredictedRows said = say(options, models, best, data.validation_batches());
    folds.push_back(fold_scores(ensemble(options.ensemble, {&said.predictions, 1}, columns), said.labels, columns));
  }
  return binning_gain(folds);
}

Dataset batches_of(const std::vector<QuestRow>& rows, const Options& options, const Models& models) {
  const SequenceEncoder encoder(models.first() + "/tokenizer.json", models.format.limits);
  std::vector<std::string> records;
  records.reserve(rows.size());
  for (const QuestRow& row : rows) records.push_back(quest_record(encoder.encode(row), {}, encoder));
  const Dataset examples = Dataset::rows({{.name = "record", .values = std::move(records)}});
  return parse_quest(examples, models.format, /*padded=*/true, /*labelled=*/false).batch(options.global_batch);
}

// [rows, targets] in [0, 1].
std::vector<double> predict(const Options& options, const Models& models, const Dataset& batches) {
  std::vector<std::vector<float>> logits;
  for (const FoldModel& best : models.best) logits.push_back(say(options, models, best, batches).predictions);
  return ensemble(options.ensemble, logits, std::ssize(models.format.targets));
}

int run(int argc, char** argv) {
  auto options = parse(argc, argv);
  if (!options) return 0;
  const WorkerLimit limit(checked_threads(options->threads));
  const Models models = find_models(*options);
  const QuestRows rows = options->csv.empty() ? QuestRows() : read_csv_rows(options->csv, std::nullopt);
  const Dataset batches = batches_of(rows.rows, *options, models);
  const StopSignals signals;
  const std::unique_ptr<OutputFile> file = rows.rows.empty() ? nullptr : open_output_anywhere(options->out);
  BinningGain gain;
  std::vector<double> values;
  try {
    TerminalLine line;
    options->on_progress = [&](int64_t fold, int64_t done) {
      if (signals.requested()) throw Interrupted();
      if (line.due()) line.show(fmt::format("fold {}: {} rows", fold, done));
    };
    if (!options->shards.empty()) gain = gain_of(*options, models);
    if (file) values = predict(*options, models, batches);
  } catch (const Interrupted&) {
    std::cerr << "predict_quest: interrupted; nothing is written\n";
    return signals.exit_code();
  }
  std::vector<std::string> names(models.format.targets.size());
  std::ranges::transform(models.format.targets, names.begin(), &QuestTarget::name);
  nlohmann::ordered_json json = {{"targets", names}, {"folds", models.folds}, {"rows", rows.rows.size()}};
  std::string text = fmt::format("models of the folds {}\n", fmt::join(models.folds, " "));
  if (!gain.raw.empty()) {
    json.update(to_json(gain));
    text += to_text(gain, names, models.folds);
  }
  if (file) {
    std::vector<std::string> ids(rows.rows.size());
    std::ranges::transform(rows.rows, ids.begin(), &QuestRow::id);
    for (size_t i = 0; i < std::min(ids.size(), static_cast<size_t>(options->show)); ++i) {
      const ShownRow shown = shown_row(ids[i], rows.rows[i].title, names, std::span(values).subspan(i * names.size()));
      json["shown"].push_back(to_json(shown));
      text += fmt::format("\n{}", to_text(shown));
    }
    file->write(csv_of_numbers("qa_id", names, ids, options->binning ? binned_columns(values, gain.bins) : values));
    file->commit();
    json["out"] = options->out;
    text += fmt::format("\n{} rows predicted: {}\n", ids.size(), options->out);
  }
  std::cout << (options->json ? fmt::format("{}\n", json_line(json)) : text);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("predict_quest", [&] { return run(argc, argv); });
}
