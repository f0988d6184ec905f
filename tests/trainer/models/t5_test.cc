// T5 beside its golden figures (tests/trainer/golden): forms that those do not have, files, refusals.
#include "millrace/trainer/models/t5.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/safetensors/reader.h"
#include "millrace/formats/safetensors/writer.h"
#include "millrace/trainer/gradient_check.h"
#include "millrace/trainer/models/t5_pretrained.h"
#include "millrace/trainer/optimizers/adam.h"
#include "millrace/trainer/step/step_graph.h"
#include "tests/support/loaded_tensors.h"
#include "tests/support/places.h"
#include "tests/trainer/golden/json_file.h"

namespace millrace::t5_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kGolden = test::data_path("trainer/t5_tiny");

T5Config small(const std::string& feed_forward, bool tied) {
  return {.vocab_size = 11,
          .d_model = 6,
          .d_kv = 4,
          .d_ff = 10,
          .num_layers = 2,
          .num_decoder_layers = 1,
          .num_heads = 2,
          .relative_attention_num_buckets = 8,
          .relative_attention_max_distance = 12,
          .feed_forward_proj = feed_forward,
          .tie_word_embeddings = tied,
          .dropout_rate = 0.2};
}

struct Batch {
  std::vector<int32_t> ids = {3, 5, 7, 2, 9, 1, 4, 10, 2, 0};
  std::vector<int64_t> mask = {1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
  std::vector<int32_t> labels = {5, 1, kNoLabel, 8, 9, 1};
  BatchView view() const {
    return BatchView({{"input_ids", std::span<const int32_t>(ids), {2, 5}},
                      {"attention_mask", std::span<const int64_t>(mask), {2, 5}},
                      {"labels", std::span<const int32_t>(labels), {2, 3}}});
  }
};

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ErrorException& error) {
    return error.what();
  }
  return "no error";
}

TEST(T5, LabelsShiftedToTheRightAreTheDecodersInput) {
  const T5ForConditionalGeneration model(small("relu", true));
  EXPECT_EQ(model.shift_right(Batch().labels, 3), (std::vector<int32_t>{0, 5, 1, 0, 8, 9}));
}

class T5Gradients : public testing::TestWithParam<std::pair<const char*, bool>> {};

TEST_P(T5Gradients, WithDropoutAreThoseOfCentralDifferences) {
  const T5ForConditionalGeneration model(small(GetParam().first, GetParam().second));
  FlatBuffer weights(model.layout().size());
  model.initialize(weights.span(), 3);
  const Batch batch;
  // A small step, which crosses no corner of relu.
  for (const WrongGradient& wrong : check_gradients(model, batch.view(), weights.span(), {.step = 1e-6, .seed = 5})) {
    ADD_FAILURE() << wrong.to_string();
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, T5Gradients,
                         testing::Values(std::pair("relu", true), std::pair("gated-gelu", false),
                                         std::pair("gelu", true), std::pair("gated-relu", true)));

TEST(T5, DropoutDoesNotDependOnHowTheBatchIsSplit) {
  const T5ForConditionalGeneration model(small("gated-gelu", false));
  const Adam optimizer(model.layout(), adamw());
  const Batch batch;
  std::vector<double> losses;
  for (int replicas : {1, 2}) {
    TrainedState state(model.layout(), optimizer);
    model.initialize(state.weights.span(), 1);
    StepGraph graph(model, optimizer, state, {.replicas = replicas, .threads = 1, .seed = 4});
    losses.push_back(graph.train(batch.view(), {7, 7, 1}, 0).loss);
    losses.push_back(graph.train(batch.view(), {8, 8, 2}, 0).loss);
  }
  EXPECT_NEAR(losses[0], losses[2], 1e-5);
  EXPECT_NEAR(losses[1], losses[3], 1e-5);
  EXPECT_GT(std::abs(losses[0] - losses[1]), 1e-4);  // so the comparison can fail
}

TEST(T5, GreedyDecodingFindsTheMostLikelyIdsAndEndsARowAtItsEnd) {
  const T5ForConditionalGeneration model(load_t5_config(kGolden));
  FlatBuffer weights = load_t5_weights(kGolden, model);
  const SafetensorsFile io(kGolden + "/io.safetensors");
  const std::vector<int64_t> wide = io.values<int64_t>("input_ids");
  const std::vector<int32_t> ids(wide.begin(), wide.end());
  const std::vector<int64_t> mask = io.values<int64_t>("attention_mask");
  const T5Input input{.rows = 6, .length = 20, .ids = ids, .attention_mask = mask};
  const auto workspace = model.make_workspace();
  const std::vector<int32_t> found = model.generate(input, 4, weights.data(), *workspace);
  ASSERT_EQ(found.size(), 24U);
  // Each id against the logits of a pass over the ids before it.
  Arena arena;
  Tape<float> tape(arena);
  tape.begin(model.layout(), weights.data());
  const Tensor<float> encoded = model.encode(tape, input).back();
  const std::vector<int32_t> before = model.shift_right(found, 4);
  const Tensor<float> decoded = model.decode(tape, encoded, input, {.length = 4, .ids = before}).back();
  std::vector<int32_t> all(24);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
  const Tensor<float> logits = model.logits(tape, decoded, all);
  for (int64_t row = 0; row < 6; ++row) {
    bool ended = false;
    for (int64_t i = 4 * row; i < 4 * row + 4; ++i) {
      const float* begin = logits.values + i * 101;
      const auto best = std::max_element(begin, begin + 101) - begin;
      EXPECT_EQ(found[static_cast<size_t>(i)], ended ? 0 : best) << i;
      ended = ended || best == 1;
    }
  }
  // A model that always says the end.
  std::fill(weights.span().begin(), weights.span().end(), 0.0F);
  T5Config ends = model.config();
  ends.eos_token_id = 0;
  ends.pad_token_id = 7;
  const T5ForConditionalGeneration ending(ends);
  EXPECT_EQ(ending.generate({.rows = 1, .length = 20, .ids = std::span(ids).first(20)}, 3, weights.data(), *workspace),
            (std::vector<int32_t>{0, 7, 7}));
}

TEST(T5, IsWrittenAndReadInTheLayoutOfTransformers) {
  const fs::path directory = fs::path(testing::TempDir()) / "millrace_t5_layout";
  fs::remove_all(directory);
  fs::create_directory(directory);
  const T5ForConditionalGeneration model(load_t5_config(kGolden));
  const FlatBuffer weights = load_t5_weights(kGolden, model);
  save_t5_config(directory.string(), model.config());
  save_t5_weights(directory.string(), model, weights.span());
  const T5ForConditionalGeneration again(load_t5_config(directory.string()));
  EXPECT_TRUE(std::ranges::equal(load_t5_weights(directory.string(), again).span(), weights.span()));
  // All fields of the golden config but the version of the library that wrote it.
  nlohmann::json ours = test::read_json((directory / "config.json").string());
  nlohmann::json theirs = test::read_json(kGolden + "/config.json");
  theirs.erase("transformers_version");
  theirs.erase("use_cache");
  EXPECT_EQ(ours, theirs);

  const std::string path = (directory / "model.safetensors").string();
  const test::LoadedTensors kept(path);
  std::vector<NamedTensor> tensors = kept.tensors();
  std::vector<float> other = SafetensorsFile(path).values<float>("shared.weight");
  NamedTensor copy = *kept.find("shared.weight");
  copy.name = "encoder.embed_tokens.weight";
  tensors.push_back(copy);
  write_safetensors(path, tensors);
  (void)load_t5_weights(directory.string(), again);  // an equal copy is fine
  other[5] += 1;
  tensors.back().bytes = std::as_bytes(std::span<const float>(other));
  write_safetensors(path, tensors);
  EXPECT_THAT(message_of([&] { (void)load_t5_weights(directory.string(), again); }),
              HasSubstr("but different: shared.weight and encoder.embed_tokens.weight"));

  tensors.pop_back();
  std::erase_if(tensors, [](const NamedTensor& tensor) { return tensor.name == "encoder.final_layer_norm.weight"; });
  for (NamedTensor& tensor : tensors) {
    if (tensor.name == "decoder.final_layer_norm.weight") tensor.name = "decoder.norm";
    if (tensor.name == "decoder.block.0.layer.2.DenseReluDense.wi.weight") tensor.shape = {32, 64};
  }
  write_safetensors(path, tensors);
  const std::string message = message_of([&] { (void)load_t5_weights(directory.string(), again); });
  EXPECT_THAT(message, HasSubstr("missing: encoder.final_layer_norm.weight, decoder.final_layer_norm.weight"));
  EXPECT_THAT(message, HasSubstr("unexpected: decoder.norm"));
  EXPECT_THAT(message, HasSubstr("wi.weight (F32 [32,64], the model has F32 [64,32])"));
  fs::remove_all(directory);
}

// By transformers 5.24, which says of every T5 that its embeddings are tied.
TEST(T5, ScalesItsOutputsOnlyWhereTheConfigSaysSo) {
  const std::string folder = test::data_path("models/t5_scale");
  const T5ForConditionalGeneration model(load_t5_config(folder));
  const fs::path directory = fs::path(testing::TempDir()) / "millrace_t5_scale";
  fs::create_directories(directory);
  save_t5_config(directory.string(), model.config());
  const T5Config again = load_t5_config(directory.string());
  EXPECT_TRUE(again.tie_word_embeddings);
  EXPECT_FALSE(again.scales_outputs());
  EXPECT_EQ(T5ForConditionalGeneration(again).describe(), model.describe());
  EXPECT_THAT(model.describe(), HasSubstr("tie_word_embeddings=true with scale_decoder_outputs=false,"));
  fs::remove_all(directory);
}

TEST(T5, UsesTheOutputMatrixOfItsFileAlsoWhereItIsSaidToBeTied) {
  const fs::path directory = fs::path(testing::TempDir()) / "millrace_t5_matrix";
  fs::remove_all(directory);
  fs::create_directory(directory);
  fs::copy_file(kGolden + "/config.json", directory / "config.json");
  const test::LoadedTensors golden(kGolden + "/model.safetensors");
  std::vector<NamedTensor> tensors = golden.tensors();
  std::vector<float> matrix = SafetensorsFile(kGolden + "/model.safetensors").values<float>("shared.weight");
  tensors.push_back(*golden.find("shared.weight"));
  tensors.back().name = "lm_head.weight";
  const std::string path = (directory / "model.safetensors").string();
  write_safetensors(path, tensors);
  EXPECT_TRUE(load_t5_config(directory.string()).tie_word_embeddings) << "an equal copy";
  for (float& value : matrix) value *= 2;
  tensors.back().bytes = std::as_bytes(std::span<const float>(matrix));
  write_safetensors(path, tensors);

  const auto logits_of = [](const T5ForConditionalGeneration& model, const FlatBuffer& weights) {
    const std::vector<int32_t> ids = {5, 6, 7};
    const T5Input input{.rows = 1, .length = 3, .ids = ids};
    Arena arena;
    Tape<float> tape(arena);
    tape.begin(model.layout(), weights.data());
    const Tensor<float> encoded = model.encode(tape, input).back();
    const Tensor<float> decoded = model.decode(tape, encoded, input, {.length = 3, .ids = ids}).back();
    const Tensor<float> logits = model.logits(tape, decoded, std::vector<int32_t>{0, 2});
    return std::vector<float>(logits.values, logits.values + 2 * model.config().vocab_size);
  };
  const T5ForConditionalGeneration tied(load_t5_config(kGolden));
  std::vector<float> doubled = logits_of(tied, load_t5_weights(kGolden, tied));
  for (float& value : doubled) value *= 2;
  const T5ForConditionalGeneration model(load_t5_config(directory.string()));
  const FlatBuffer weights = load_t5_weights(directory.string(), model);
  EXPECT_EQ(logits_of(model, weights), doubled) << "scaled as the config says, by a matrix twice as large";
  save_t5_config(directory.string(), model.config());
  save_t5_weights(directory.string(), model, weights.span());
  const T5ForConditionalGeneration again(load_t5_config(directory.string()));
  EXPECT_EQ(logits_of(again, load_t5_weights(directory.string(), again)), doubled);
  fs::remove_all(directory);
}

// As t5-small and t5-base lie on the Hub; transformers ignores it too (_keys_to_ignore_on_load_unexpected).
TEST(T5, LoadsThePublishedFilesThatHoldATableNobodyReads) {
  const fs::path directory = fs::path(testing::TempDir()) / "millrace_t5_published";
  fs::remove_all(directory);
  fs::create_directory(directory);
  fs::copy_file(kGolden + "/config.json", directory / "config.json");
  const test::LoadedTensors golden(kGolden + "/model.safetensors");
  std::vector<NamedTensor> tensors = golden.tensors();
  NamedTensor table = *golden.find("decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight");
  table.name = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";
  tensors.push_back(table);
  write_safetensors((directory / "model.safetensors").string(), tensors);
  const T5ForConditionalGeneration model(load_t5_config(directory.string()));
  EXPECT_TRUE(
      std::ranges::equal(load_t5_weights(directory.string(), model).span(), load_t5_weights(kGolden, model).span()));
  fs::remove_all(directory);
}

TEST(T5, DescribesWhatItsShapesDoNotTell) {
  const auto described = [](const auto& change) {
    T5Config config = load_t5_config(kGolden);
    change(config);
    return T5ForConditionalGeneration(config).describe();
  };
  const std::string same = described([](T5Config&) {});
  EXPECT_EQ(described([](T5Config& config) { config.initializer_factor = 2; }), same) << "only for the start";
  EXPECT_NE(described([](T5Config& config) { std::swap(config.num_heads, config.d_kv); }), same);
  EXPECT_NE(described([](T5Config& config) { config.feed_forward_proj = "gelu"; }), same);
  EXPECT_NE(described([](T5Config& config) { config.relative_attention_max_distance = 64; }), same);
  EXPECT_NE(described([](T5Config& config) { config.dropout_rate = 0.25; }), same);
  EXPECT_NE(described([](T5Config& config) { config.layer_norm_epsilon = 1e-5; }), same);
  EXPECT_NE(described([](T5Config& config) { config.pad_token_id = 2; }), same);
  EXPECT_NE(described([](T5Config& config) { config.decoder_start_token_id = 2; }), same);
}

// What T5Config.from_dict of transformers 4.49 makes of these fields.
TEST(T5, TheActivationAndTheGateOfTheConfigCountWhateverItsProjectionSays) {
  const fs::path directory = fs::path(testing::TempDir()) / "millrace_t5_activation";
  fs::create_directories(directory);
  struct Expected {
    const char* fields;
    const char* activation;
    bool gated;
    const char* described;
  };
  for (const Expected& expected : std::initializer_list<Expected>{
           {R"("feed_forward_proj": "gated-gelu")", "gelu_new", true, "feed_forward_proj=gated-gelu,"},
           {R"("feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu_new", "is_gated_act": true)", "gelu_new", true,
            "feed_forward_proj=gated-gelu,"},
           {R"("feed_forward_proj": "gated-gelu", "dense_act_fn": "relu")", "relu", true,
            "feed_forward_proj=gated-gelu with dense_act_fn=relu and is_gated_act=true,"},
           {R"("feed_forward_proj": "relu", "is_gated_act": true)", "relu", true,
            "feed_forward_proj=relu with dense_act_fn=relu and is_gated_act=true,"},
           {R"("feed_forward_proj": "gated-tanh", "dense_act_fn": "gelu", "is_gated_act": false)", "gelu", false,
            "feed_forward_proj=gated-tanh with dense_act_fn=gelu and is_gated_act=false,"},
           {R"("dense_act_fn": "gelu")", "gelu", false,
            "feed_forward_proj=relu with dense_act_fn=gelu and is_gated_act=false,"},
       }) {
    std::ofstream(directory / "config.json")
        << R"({"model_type": "t5", "vocab_size": 11, "d_model": 6, "d_ff": 10, "num_layers": 1, )" << expected.fields
        << "}";
    for (const char* what : {"read", "written and read"}) {
      const T5ForConditionalGeneration model(load_t5_config(directory.string()));
      EXPECT_EQ(model.config().activation(), expected.activation) << expected.fields << what;
      EXPECT_THAT(model.describe(), HasSubstr(expected.described)) << expected.fields << what;
      EXPECT_EQ(model.layout().find("encoder.block.0.layer.1.DenseReluDense.wi_1.weight").has_value(), expected.gated)
          << expected.fields << what;
      save_t5_config(directory.string(), model.config());
    }
  }
  fs::remove_all(directory);
  // The same weights, another activation: the computation follows the field.
  const auto loss_of = [](const std::optional<std::string>& activation) {
    T5Config config = small("gated-gelu", true);
    config.dense_act_fn = activation;
    const T5ForConditionalGeneration model(config);
    FlatBuffer weights(model.layout().size());
    model.initialize(weights.span(), 3);
    const auto workspace = model.make_workspace();
    return model.evaluate(Batch().view(), weights.data(), *workspace).sum_loss;
  };
  EXPECT_EQ(loss_of("gelu_new"), loss_of(std::nullopt));
  EXPECT_NE(loss_of("relu"), loss_of(std::nullopt));
}

TEST(T5, RefusesWhatItDoesNotHave) {
  const auto refused = [](T5Config config) {
    return message_of([&] { const T5ForConditionalGeneration model(config); });
  };
  EXPECT_THAT(refused({.d_kv = 0}), HasSubstr("d_kv is 0; at least 1"));
  const int64_t large = int64_t{1} << 31U;
  EXPECT_THAT(refused({.vocab_size = large}), HasSubstr("vocab_size is 2147483648; at most 2147483647 is possible"));
  EXPECT_THAT(refused({.d_kv = large}), HasSubstr("d_kv is 2147483648; at most 2147483647"));
  EXPECT_THAT(refused({.num_layers = 10001}), HasSubstr("num_layers is 10001; at most 10000"));
  EXPECT_THAT(refused({.num_decoder_layers = 10001}), HasSubstr("num_decoder_layers is 10001; at most 10000"));
  EXPECT_THAT(refused({.d_kv = large - 1, .num_heads = large - 1}), HasSubstr("SelfAttention.q.weight' ["));
  EXPECT_THAT(refused({.feed_forward_proj = "gated-tanh"}),
              HasSubstr("feed_forward_proj: there is no activation 'tanh'; relu, gelu"));
  EXPECT_THAT(refused({.dense_act_fn = "tanh"}), HasSubstr("dense_act_fn: there is no activation 'tanh'"));
  EXPECT_THAT(refused({.vocab_size = 4, .eos_token_id = 4}), HasSubstr("eos_token_id is 4"));
  EXPECT_THAT(refused({.dropout_rate = 1}), HasSubstr("dropout_rate is 1"));
  const fs::path directory = fs::path(testing::TempDir()) / "millrace_t5_config";
  fs::create_directories(directory);
  const auto message_for = [&](const std::string& text) {
    std::ofstream(directory / "config.json") << text;
    return message_of([&] { (void)load_t5_config(directory.string()); });
  };
  EXPECT_THAT(message_for(R"({"model_type": "umt5"})"), HasSubstr("model_type is \"umt5\"; known is \"t5\", \"mt5\""));
  EXPECT_THAT(message_for(R"({"model_type": "t5", "d_kv": "wide"})"), HasSubstr("d_kv: "));
  EXPECT_THAT(message_for("[]"), HasSubstr("not a JSON object"));
  fs::remove_all(directory);
}

}  // namespace
}  // namespace millrace::t5_test
