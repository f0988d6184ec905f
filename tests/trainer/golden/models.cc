#include "tests/trainer/golden/models.h"

#include <cmath>
#include <filesystem>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/safetensors/reader.h"
#include "millrace/trainer/models/roberta_pretrained.h"
#include "millrace/trainer/models/t5_pretrained.h"
#include "millrace/trainer/tensor/cross_entropy.h"
#include "tests/trainer/golden/json_file.h"
#include "tests/trainer/golden/trajectory.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

constexpr double kRelative = 1e-5;
constexpr double kAbsolute = 1e-6;

// Int64 of a file, as models read ids.
struct Ids {
  Ids(const SafetensorsFile& file, const std::string& name) : shape(shape_of(file, name)) {
    const std::vector<int64_t> wide = file.values<int64_t>(name);
    values.assign(wide.begin(), wide.end());
  }
  static std::vector<int64_t> shape_of(const SafetensorsFile& file, const std::string& name) {
    const StoredTensor* tensor = file.find(name);
    return tensor == nullptr ? std::vector<int64_t>() : tensor->shape;
  }
  FeatureView feature(const std::string& name) const { return {name, std::span<const int32_t>(values), shape}; }
  std::vector<double> doubles() const { return {values.begin(), values.end()}; }

  std::vector<int64_t> shape;
  std::vector<int32_t> values;
};

struct Mask {
  Mask(const SafetensorsFile& file, const std::string& name)
      : shape(Ids::shape_of(file, name)), values(file.values<int64_t>(name)) {}
  FeatureView feature(const std::string& name) const { return {name, std::span<const int64_t>(values), shape}; }

  std::vector<int64_t> shape;
  std::vector<int64_t> values;
};

std::vector<int32_t> all_positions(const Ids& ids) {
  std::vector<int32_t> positions(ids.values.size());
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

void compare_tensor(const std::string& label, const Tensor<float>& found, const SafetensorsFile& file,
                    const std::string& name, GoldenReport& report) {
  const std::vector<float> expected = file.values<float>(name);
  report.compare(label + " " + name, std::vector<double>(found.values, found.values + found.count()),
                 {expected.begin(), expected.end()}, kRelative, kAbsolute);
}

// There must be as many hidden states in the file as the model has.
void compare_states(const std::string& label, const std::vector<Tensor<float>>& states, const SafetensorsFile& file,
                    const std::string& name, GoldenReport& report) {
  for (size_t i = 0; i < states.size(); ++i) {
    compare_tensor(label, states[i], file, fmt::format("{}.{}", name, i), report);
  }
  const std::string beyond = fmt::format("{}.{}", name, states.size());
  report.expect(label + " number of states of " + name, file.find(beyond) == nullptr,
                fmt::format("the model has {}, the file also {}", states.size(), beyond));
}

void compare_token_losses(const std::string& label, Tape<float>& tape, const Tensor<float>& logits, const Ids& labels,
                          const SafetensorsFile& file, const std::string& name, GoldenReport& report) {
  compare_tensor(label, cross_entropy_rows(tape, logits, labels.values), file, name, report);
}

// Figures are made without dropout, whatever rate a model is trained with.
RobertaConfig roberta_without_dropout(const std::string& folder) {
  RobertaConfig config = load_roberta_config(folder);
  config.hidden_dropout_prob = 0;
  config.attention_probs_dropout_prob = 0;
  return config;
}

T5Config t5_without_dropout(const std::string& folder) {
  T5Config config = load_t5_config(folder);
  config.dropout_rate = 0;
  return config;
}

double scalar(const SafetensorsFile& file, const std::string& name) { return file.values<double>(name).at(0); }
double count(const SafetensorsFile& file, const std::string& name) {
  return static_cast<double>(file.values<int64_t>(name).at(0));
}

}  // namespace

void check_golden_roberta(const std::string& folder, GoldenReport& report) {
  const std::string label = fs::path(folder).filename().string();
  const auto path = [&](const char* name) { return (fs::path(folder) / name).string(); };
  report.begin_group(label);
  report.guard(label, [&] {
    const RobertaForMaskedLm model(roberta_without_dropout(folder), 4096);
    const FlatBuffer weights = load_roberta_weights(folder, model);
    Arena arena;
    Tape<float> tape(arena);
    const auto states_of = [&](const Ids& ids, const Mask& mask) {
      tape.begin(model.layout(), weights.data());
      return model.encode(
          tape, {.rows = ids.shape.at(0), .length = ids.shape.at(1), .ids = ids.values, .attention_mask = mask.values});
    };
    {
      const SafetensorsFile io(path("io.safetensors"));
      const Ids ids(io, "input_ids");
      const Mask mask(io, "attention_mask");
      const Ids labels(io, "labels");
      if (io.find("position_ids") != nullptr) {
        std::vector<int32_t> found(ids.values.size());
        model.encoder().position_ids({.rows = ids.shape.at(0), .length = ids.shape.at(1), .ids = ids.values},
                                     found.data());
        report.begin_group(label + " position ids");
        report.compare(label + " position_ids", {found.begin(), found.end()}, Ids(io, "position_ids").doubles(), 0, 0);
      }
      report.begin_group(label + " hidden states");
      const std::vector<Tensor<float>> states = states_of(ids, mask);
      compare_states(label, states, io, "hidden", report);
      report.begin_group(label + " logits");
      const Tensor<float> logits = model.logits(tape, states.back());
      compare_tensor(label, logits, io, "logits", report);
      report.begin_group(label + " token losses");
      compare_token_losses(label, tape, logits, labels, io, "token_loss", report);
      const BatchView batch({ids.feature("input_ids"), labels.feature("labels"), mask.feature("attention_mask")});
      check_golden_gradients(label, path("grads.safetensors"), model, weights.span(), batch,
                             scalar(io, "loss_sum_float64"), count(io, "num_labels"), report);
      const auto is_noise = [](const std::string& name) { return name.ends_with("attention.self.key.bias"); };
      check_golden_runs(label, read_json(path("trajectory.json")), model, weights.span(), batch, is_noise, report);
    }
    if (!fs::exists(path("id1_inside.safetensors"))) return;
    report.begin_group(label + " id1_inside");
    const SafetensorsFile inside(path("id1_inside.safetensors"));
    const Ids ids(inside, "input_ids");
    const Mask mask(inside, "attention_mask");
    const Tensor<float> logits = model.logits(tape, states_of(ids, mask).back());
    compare_tensor(label + " id1_inside", logits, inside, "logits", report);
  });
}

void check_golden_t5(const std::string& folder, GoldenReport& report) {
  const std::string label = fs::path(folder).filename().string();
  const auto path = [&](const std::string& name) { return (fs::path(folder) / name).string(); };
  report.begin_group(label);
  report.guard(label, [&] {
    const T5ForConditionalGeneration model(t5_without_dropout(folder), 4096);
    const FlatBuffer weights = load_t5_weights(folder, model);
    const SafetensorsFile io(path("io.safetensors"));
    const Ids ids(io, "input_ids");
    const Mask mask(io, "attention_mask");
    const T5Input input{
        .rows = ids.shape.at(0), .length = ids.shape.at(1), .ids = ids.values, .attention_mask = mask.values};
    const nlohmann::json trajectory = read_json(path("trajectory.json"));
    Arena arena;
    Tape<float> tape(arena);
    int sets = 0;
    for (const StoredTensor& tensor : io.tensors()) {
      constexpr std::string_view kLabels = ".labels";
      if (!tensor.name.ends_with(kLabels)) continue;
      ++sets;
      const std::string set = tensor.name.substr(0, tensor.name.size() - kLabels.size());
      const std::string set_label = label + " " + set;
      const Ids labels(io, tensor.name);
      const Ids decoder_ids(io, set + ".decoder_input_ids");
      report.begin_group(label + " decoder_input_ids");
      report.expect(set_label + " decoder_input_ids",
                    model.shift_right(labels.values, labels.shape.at(1)) == decoder_ids.values,
                    "the labels shifted to the right are others");
      report.begin_group(label + " hidden states");
      tape.begin(model.layout(), weights.data());
      const std::vector<Tensor<float>> encoded = model.encode(tape, input);
      if (sets == 1) compare_states(label, encoded, io, "encoder_hidden", report);
      const std::vector<Tensor<float>> decoded =
          model.decode(tape, encoded.back(), input, {.length = labels.shape.at(1), .ids = decoder_ids.values});
      compare_states(label, decoded, io, set + ".decoder_hidden", report);
      report.begin_group(label + " logits");
      const std::vector<int32_t> positions = all_positions(decoder_ids);
      const Tensor<float> logits = model.logits(tape, decoded.back(), positions);
      compare_tensor(label, logits, io, set + ".logits", report);
      report.begin_group(label + " token losses");
      compare_token_losses(label, tape, logits, labels, io, set + ".token_loss", report);
      const BatchView batch({ids.feature("input_ids"), mask.feature("attention_mask"), labels.feature("labels")});
      check_golden_gradients(set_label, path("grads_" + set + ".safetensors"), model, weights.span(), batch,
                             scalar(io, set + ".loss_sum_float64"), count(io, set + ".num_labels"), report);
      check_golden_runs(
          set_label, trajectory.at(set), model, weights.span(), batch, [](const std::string&) { return false; },
          report);
    }
    report.begin_group(label + " sets of labels");
    report.expect(label + " sets of labels", sets > 0, "none in io.safetensors");
  });
}

}  // namespace millrace::test
