// A training program: three numbers of each text of docs/write_a_data_set.md, from the mean of its words.
#include <string>

#include "millrace/command_line/command_line.h"
#include "millrace/formats/safetensors/writer.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/trainer/checkpoint/parameter_file.h"
#include "millrace/trainer/metrics/spearman.h"
#include "millrace/trainer/models/normal_weights.h"
#include "millrace/trainer/run/run_spec.h"
#include "millrace/trainer/tape_model.h"
#include "millrace/trainer/tensor/bce_with_logits.h"
#include "millrace/trainer/tensor/embedding.h"
#include "millrace/trainer/tensor/linear.h"
#include "millrace/trainer/tensor/mean_pool.h"
#include "millrace/trainer/tensor/sum.h"

using namespace millrace;

class Rater final : public TapeModel {
 public:
  Rater()
      : words_(layout_.add("words", {64, 16})),
        weight_(layout_.add("weight", {3, 16})),
        bias_(layout_.add("bias", {3})) {
    layout_.finish();
  }
  std::string describe() const override { return "rater"; }
  void initialize(std::span<float> weights, uint64_t seed) const override {
    for (const int id : {words_, weight_, bias_}) initialize_parameter(layout_, id, 0.1, weights, seed);
  }
  ForwardResult<float> forward(ForwardPass<float>& pass) const override {
    Tape<float>& tape = pass.tape();
    const FeatureView& ids = pass.rows().feature("input_ids");
    Tensor<float> x = embedding_sum<float>(tape, {{tape.parameter(words_), ids.values<int32_t>()}});
    x = x.reshaped({pass.rows().rows(), ids.row_size(), x.columns()});
    x = mean_pool(tape, x, pass.rows().feature("attention_mask").values<int64_t>());
    const Tensor<float> logits = linear(tape, x, tape.parameter(weight_), tape.parameter(bias_));
    ForwardResult<float> result;
    if (pass.predicts()) result.columns = {predicted_column("scores", logits)};
    if (const FeatureView* labels = pass.labels()) {
      const Tensor<float> losses = bce_with_logits(tape, logits, pass.constant(*labels));
      result.losses.emplace_back(sum(tape, losses), static_cast<double>(losses.count()));
    }
    return result;
  }

 private:
  int words_, weight_, bias_;
};

Dataset rows_of(const std::string& folder, const std::string& split) {
  return Dataset::tfrecord(Shards::glob(folder + "/" + split + "-*.tfrecord").counts_from("*-{index}-{count}.tfrecord"))
      .parse_example({fixed_len("input_ids", {16}, DType::kInt64).as(DType::kInt32),
                      fixed_len("attention_mask", {16}, DType::kInt64), fixed_len("labels", {3}, DType::kFloat32)});
}

int run(int argc, char** argv) {
  RunOptions options{.out = "rater",
                     .global_batch = 32,
                     .keep_best = 1,
                     .keep_best_by = "spearman",
                     .checkpoint_every = {.steps = 20}};
  std::string shards = "shards";
  boost::program_options::options_description files("Files"), training("Training"), reports("Reports");
  add_run_options(options, "of start weights", files, training, reports);
  files.add_options()("shards", boost::program_options::value(&shards)->default_value(shards), "their folder");
  files.add(training).add(reports);
  const auto given = parse_command_line(
      argc, argv, {.name = "train_rater", .about = "Trains a rater of texts.", .usage = "[options]"}, files);
  if (!given) return 0;
  take_run_options(options, *given);

  const Rater model;
  const auto make = [&]() -> RunParts {
    const Dataset rows = rows_of(shards, "train");
    const Dataset batches = rows.shuffle(1024, {.seed = 1}).batch(options.global_batch);
    const auto save_description = [](const std::string& to) { write_atomically(to + "/config.json", "{}\n"); };
    const auto save_weights = [&](const std::string& to, std::span<const float> weights) {
      write_safetensors(to + "/model.safetensors", parameter_tensors(model.layout(), weights), {{"format", "pt"}});
    };
    return {.trained = {model, save_description, save_weights},
            .data = {.training = batches.repeat(),
                     .evaluation = rows_of(shards, "validation").batch(100),
                     .metrics = [] { return metrics_of(Spearman()); },
                     .higher_is_better = {"spearman"},
                     .description = "batches of " + std::to_string(options.global_batch),
                     .batches_per_epoch = batches.cardinality().count(),
                     .rows_per_epoch = rows.cardinality().count()}};
  };
  if (options.check) return check_run(options, make);
  const RunParts parts = make();
  return TrainingRun("train_rater", options).train(parts.trained, parts.data, nullptr);
}

int main(int argc, char** argv) {
  return run_program("train_rater", [&] { return run(argc, argv); });
}
