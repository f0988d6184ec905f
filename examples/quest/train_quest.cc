// Trains models that say how good questions and answers are; see train_quest --help and docs/quest.md.
#include <algorithm>
#include <iostream>

#include <fmt/format.h>

#include "examples/quest/quest_data.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/given_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/trainer/metrics/constant_columns.h"
#include "millrace/trainer/run/cross_validation.h"
#include "millrace/trainer/run/missing_data.h"
#include "millrace/trainer/run/run_spec.h"

namespace {

using namespace millrace;
namespace po = boost::program_options;

const MetricColumns kColumns = {.predictions = "logits"};
constexpr const char* kAbout =
    "Trains a Siamese RoBERTa on the shards of prepare_quest, a fold after the other, with runs in OUT/fold-0, ...\n"
    "Ctrl-C finishes the step, leaves a checkpoint and exits with 130; a second one stops at once.";

struct Options {
  RunOptions run = {.out = "quest",
                    .global_batch = 64,
                    .phase = {.steps = 375, .optimizer = "radam", .weight_decay = 0},
                    .keep_best = 1,
                    .keep_best_by = "spearman"};
  std::string shards;
  std::string tokenizer;
  int64_t fold = -1;  // -1: all
  RobertaOptions encoder;
  double head_dropout = 0.5;
  QuestDataOptions data;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  po::options_description files("files");
  po::options_description model("model");
  po::options_description training("training");
  po::options_description reports("reports");
  add_run_options(options.run, "of start weights, order and dropout", files, training, reports, "OUT/fold-N");
  add_roberta_options(options.encoder, model);
  // clang-format off
  files.add_options()
      ("shards", po::value(&options.shards), "folder that prepare_quest wrote, or its URL (default: OUT/shards)")
      ("tokenizer", po::value(&options.tokenizer), "its tokenizer (default: tokenizer.json in --model, else in OUT)");
  model.add_options()
      ("head-dropout", real_number(options.head_dropout, {0, 0.99}), "of what the heads see");
  training.add_options()
      ("fold", whole_number(options.fold, {-1, 999}), "train this fold alone; -1: all")
      ("shuffle", whole_number(options.data.shuffle, {1, limits::kRows}), "rows in the shuffle buffer")
      ("dynamic", "batches of rows of similar lengths, padded to parts of 32 at most instead of the limits")
      ("max-shapes", whole_number(options.data.max_shapes, {1, limits::kFew}), "with --dynamic, different shapes of "
       "batches at most; where parts of 32 would give more, they are longer");
  // clang-format on
  po::options_description all;
  all.add(files).add(model).add(training).add(reports);
  const auto given =
      parse_command_line(argc, argv, {.name = "train_quest", .about = kAbout, .usage = "[options]"}, all);
  if (!given) return std::nullopt;
  take_run_options(options.run, *given);
  take_roberta_options(options.encoder, *given);
  options.data.dynamic = given->contains("dynamic");
  if (!options.data.dynamic) refuse_given(*given, {"max-shapes"}, "is of --dynamic");
  const std::string& resume = options.run.resume;
  require(resume.empty() || resume == "last" || options.fold >= 0,
          "--resume CHECKPOINT is of one fold: --fold is missing");
  require(options.run.trace.empty() || options.fold >= 0, "--trace is of one fold: --fold is missing");
  require(!options.run.out.empty(), "--out is empty");
  if (options.shards.empty()) options.shards = options.run.out + "/shards";
  if (options.tokenizer.empty()) {
    options.tokenizer = (options.encoder.model.empty() ? options.run.out : options.encoder.model) + "/tokenizer.json";
  }
  options.data.global_batch = options.run.global_batch;
  options.data.seed = static_cast<uint64_t>(options.run.seed);
  options.data.damage = options.run.damage;
  return options;
}

int run_fold(const Options& options, const QuestStatistics& set, const SequenceEncoder& encoder, int64_t fold) {
  const QuestFormat& format = set.format;
  const int64_t longest = std::max(format.limits.question, format.limits.answer);
  const QuestData data(options.shards, set, fold, options.data);
  const RobertaConfig config = roberta_config(options.encoder, encoder.tokens(), longest);
  const QuestionAnswerRoberta model(config, format.by_head(),
                                    {.dropout = options.head_dropout, .encoder_folder = options.encoder.model});
  const int64_t rows = set.rows - set.fold_rows[static_cast<size_t>(fold)];
  const int64_t batches = std::max<int64_t>(1, (rows + options.run.global_batch / 2) / options.run.global_batch);
  const auto look = [&](const BatchView& row) -> std::vector<std::string> {
    const auto text = [&](const char* ids) { return encoder.decode(row.feature(ids).values<int32_t>()); };
    return {text("question_ids"), text("answer_ids")};
  };
  const RunParts parts = {
      .trained = written_with_roberta(model, config, options.tokenizer, longest, {{"quest.json", to_json(format)}}),
      .data = {.training = data.training_batches(),
               .evaluation = data.validation_batches(),
               .metrics = [] { return metrics_of(Spearman(kColumns), ConstantColumns(kColumns)); },
               .higher_is_better = {"spearman"},
               .description = data.describe(),
               .token_features = {"question_ids", "answer_ids"},
               .batches_per_epoch = batches,
               .rows_per_epoch = batches * options.run.global_batch,  // none is dropped: others begin the next epoch
               .masks = {"question_mask", "answer_mask"},
               .max_shapes = options.data.dynamic ? options.data.max_shapes : 0,
               .look = look}};
  RunOptions run = options.run;
  run.out = fold_folder(options.run.out, fold);
  if (run.check) return check_run(run, [&] { return RunParts(parts); });
  return TrainingRun("train_quest", run).train(parts.trained, parts.data, nullptr);
}

int run(int argc, char** argv) {
  auto options = parse(argc, argv);
  if (!options) return 0;
  QuestStatistics set;
  try {
    set = read_quest_set(options->shards);
  } catch (const MissingData& error) {
    if (!options->run.check) throw;
    options->run.out = fold_folder(options->run.out, std::max<int64_t>(options->fold, 0));
    return check_run(options->run, [&]() -> RunParts { throw error; });
  }
  set.format.check_tokenizer(options->tokenizer, options->shards);
  const SequenceEncoder encoder(options->tokenizer, set.format.limits);
  if (options->fold >= 0) return run_fold(*options, set, encoder, options->fold);
  for (int64_t fold = 0; fold < set.format.folds; ++fold) {
    std::cerr << fmt::format("train_quest: fold {}, of 0 to {}\n", fold, set.format.folds - 1);
    if (const int code = run_fold(*options, set, encoder, fold); code != 0) return code;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("train_quest", [&] { return run(argc, argv); });
}
