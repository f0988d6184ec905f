// Models that others have written: the forms of their files, and what their configs say.

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/safetensors/writer.h"
#include "millrace/trainer/checkpoint/parameter_file.h"
#include "millrace/trainer/models/roberta_pretrained.h"
#include "millrace/trainer/models/t5_pretrained.h"
#include "millrace/trainer/models/weight_files.h"
#include "tests/support/loaded_tensors.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/golden/json_file.h"
#include "tests/trainer/models/loss_case.h"

namespace millrace::pretrained_test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

std::string case_folder(const std::string& name) { return test::data_path("models/" + name); }

// A copy of a case, to be changed; gone with the test.
class Pretrained : public testing::Test {
 protected:
  void copy(const std::string& name) {
    fs::remove_all(folder_);
    fs::copy(case_folder(name), folder_);
  }
  void write_config(const std::function<void(nlohmann::json&)>& change) const {
    nlohmann::json config = test::read_json((folder_ / "config.json").string());
    change(config);
    std::ofstream(folder_ / "config.json") << config;
  }
  std::string message(const PretrainedOptions& options = {}) const {
    try {
      loss_ = test::run_loss_case(folder_.string(), options).loss;
    } catch (const ErrorException& error) {
      return error.what();
    }
    return "nothing thrown";
  }
  test::LossCase run() const { return test::run_loss_case(folder_.string()); }

  const test::TemporaryFolder temporary_;
  const fs::path folder_ = fs::path(temporary_.path()) / "model";
  mutable double loss_ = 0;
};

void expect_the_loss(const std::string& folder) {
  const test::LossCase found = test::run_loss_case(folder);
  EXPECT_NEAR(found.loss, found.expected, 1e-4) << folder;
}

TEST_F(Pretrained, ModelsOfTransformersHaveTheLossThatItMakes) {
  int num_cases = 0;
  for (const auto& entry : fs::directory_iterator(case_folder(""))) {
    expect_the_loss(entry.path().string());
    ++num_cases;
  }
  EXPECT_GE(num_cases, 4);
}

// What IEEE 754 says that a half-precision number is.
float half_of(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return static_cast<float>((bits & 0x8000) != 0 ? -size : size);
}
float bfloat16_of(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

TEST_F(Pretrained, EveryNumberOfHalfTheWidthIsWidened) {
  using ValueOf = float (*)(uint16_t bits);
  for (const auto& [type, value_of] : {std::pair<TensorType, ValueOf>{TensorType::kF16, half_of},
                                       std::pair<TensorType, ValueOf>{TensorType::kBF16, bfloat16_of}}) {
    std::vector<uint16_t> bits;
    for (uint32_t i = 0; i < 65536; ++i) {
      const uint32_t exponent = type == TensorType::kF16 ? (i >> 10) & 31 : ((i >> 7) & 255) + 31 - 255;
      if (exponent != 31) bits.push_back(static_cast<uint16_t>(i));
    }
    const auto size = static_cast<int64_t>(bits.size());
    ParameterLayout layout;
    layout.add("x", {size});
    layout.finish();
    const NamedTensor tensor{.name = "x", .type = type, .shape = {size}, .bytes = std::as_bytes(std::span(bits))};
    const test::TemporaryFolder folder;
    const std::string path = folder.path("halves.safetensors");
    write_safetensors(path, std::span(&tensor, 1));
    const FlatBuffer weights = read_weights(SafetensorsFile(path).tensors(), path, layout);
    for (size_t i = 0; i < bits.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(weights.span()[i]), std::bit_cast<uint32_t>(value_of(bits[i]))) << bits[i];
    }
    bits[7] = type == TensorType::kF16 ? 0xfc00 : 0xff80;
    write_safetensors(path, std::span(&tensor, 1));
    try {
      (void)read_weights(SafetensorsFile(path).tensors(), path, layout);
      ADD_FAILURE() << "nothing thrown";
    } catch (const ErrorException& error) {
      EXPECT_THAT(error.what(), HasSubstr("tensor 'x' is not finite: its value 7 is -inf"));
    }
  }
}

TEST_F(Pretrained, TensorsOfEightBitsAreRefusedByName) {
  copy("xlmr");
  const fs::path path = folder_ / "model.safetensors";
  std::string header = R"({"lm_head.bias":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})";
  const uint64_t length = header.size();
  std::ofstream stream(path, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(&length), sizeof(length));
  stream << header << "abcd";
  stream.close();
  EXPECT_THAT(message(), AllOf(HasSubstr("lm_head.bias"), HasSubstr("F8_E4M3"), HasSubstr("are read")));
}

// Splits the weights into two parts and an index, as transformers does above max_shard_size.
void split(const fs::path& folder, const std::function<void(nlohmann::json&)>& change) {
  const test::LoadedTensors file((folder / "model.safetensors").string());
  const std::vector<NamedTensor>& all = file.tensors();
  nlohmann::json map = nlohmann::json::object();
  for (const size_t part : {0, 1}) {
    std::vector<NamedTensor> tensors;
    const std::string name = fmt::format("model-{:05}-of-00002.safetensors", part + 1);
    for (size_t i = part; i < all.size(); i += 2) {
      tensors.push_back(all[i]);
      map[all[i].name] = name;
    }
    write_safetensors((folder / name).string(), tensors, {{"format", "pt"}});
  }
  fs::remove(folder / "model.safetensors");
  nlohmann::json index = {{"metadata", {{"total_size", 1}}}, {"weight_map", map}};
  change(index);
  std::ofstream(folder / "model.safetensors.index.json") << index;
}

TEST_F(Pretrained, WeightsInSeveralPartsAreOneModel) {
  for (const std::string name : {"xlmr", "t5_scale", "safetensors_bf16"}) {
    copy(name);
    split(folder_, [](nlohmann::json&) {});
    expect_the_loss(folder_.string());
  }
}

TEST_F(Pretrained, AnIndexThatIsNotTrueIsRefused) {
  const auto message_for = [&](const std::function<void(nlohmann::json&)>& change) {
    copy("xlmr");
    split(folder_, change);
    return message();
  };
  const std::string first = "model-00001-of-00002.safetensors";
  EXPECT_THAT(message_for([&](nlohmann::json& index) { index["weight_map"]["more.weight"] = first; }),
              AllOf(HasSubstr(first), HasSubstr("no tensor 'more.weight'")));
  EXPECT_THAT(message_for([](nlohmann::json& index) { index["weight_map"]["lm_head.bias"] = "../x.safetensors"; }),
              AllOf(HasSubstr("index.json"), HasSubstr("no file beside it for tensor 'lm_head.bias'")));
  EXPECT_THAT(message_for([](nlohmann::json& index) { index["weight_map"]["lm_head.bias"] = "gone.safetensors"; }),
              AllOf(HasSubstr("gone.safetensors"), HasSubstr("No such file")));
  EXPECT_THAT(message_for([](nlohmann::json& index) { index["weight_map"] = 3; }), HasSubstr("weight_map"));
  EXPECT_THAT(message_for([](nlohmann::json& index) { index = nlohmann::json::array(); }), HasSubstr("weight_map"));
  copy("xlmr");
  split(folder_, [](nlohmann::json&) {});
  fs::copy_file(folder_ / first, folder_ / "model-00002-of-00002.safetensors", fs::copy_options::overwrite_existing);
  EXPECT_THAT(message(), HasSubstr("no tensor '"));
}

TEST_F(Pretrained, AFolderWithAPickleAloneSaysWhatToDo) {
  copy("xlmr");
  fs::rename(folder_ / "model.safetensors", folder_ / "pytorch_model.bin");
  EXPECT_THAT(message(), AllOf(HasSubstr("neither model.safetensors nor model.safetensors.index.json"),
                               HasSubstr("pytorch_model.bin is a pickle")));
}

TEST_F(Pretrained, OfTiedTensorsOneNameIsEnough) {
  for (const auto& [first, second] : std::vector<std::pair<std::string, std::string>>{
           {"lm_head.bias", "lm_head.decoder.bias"},
           {"roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"}}) {
    copy("xlmr");
    const std::string path = (folder_ / "model.safetensors").string();
    const test::LoadedTensors file(path);
    std::vector<NamedTensor> tensors = file.tensors();
    std::erase_if(tensors, [&name = second](const NamedTensor& tensor) { return tensor.name == name; });
    std::ranges::find(tensors, first, &NamedTensor::name)->name = second;
    write_safetensors(path, tensors);
    expect_the_loss(folder_.string());
  }
}

TEST_F(Pretrained, AnUnknownFieldOfAConfigIsRefusedByNameUnlessItSaysNothing) {
  for (const std::string name : {"xlmr", "t5_scale"}) {
    copy(name);
    const double loss = run().loss;
    write_config([](nlohmann::json& config) {
      config["rope_scaling"] = nullptr;
      config["sliding_window"] = false;
      config["pruned_heads"] = nlohmann::json::object();
      config["suffix"] = "";
      config["_attn_implementation"] = "sdpa";
      config["temperature"] = 0.5;
      config["id2label"] = {{"0", "LABEL_0"}};
    });
    EXPECT_EQ(run().loss, loss) << name;
    write_config([](nlohmann::json& config) {
      config["layer_scale"] = 0.1;
      config["pruned_heads"] = {{"0", {1}}};
    });
    EXPECT_THAT(message(), AllOf(HasSubstr("config.json"), HasSubstr("layer_scale is 0.1; "),
                                 HasSubstr(R"(pruned_heads is {"0":[1]})"), HasSubstr("--ignore-config")));
    EXPECT_THAT(message({.ignored_config_fields = {"layer_scale"}}), HasSubstr(": pruned_heads is"));
    EXPECT_EQ(message({.ignored_config_fields = {"layer_scale", "pruned_heads"}}), "nothing thrown");
    EXPECT_EQ(loss_, loss) << name;
  }
}

TEST_F(Pretrained, AConfigThatIsNestedTooDeeplyIsRefused) {
  copy("xlmr");
  const auto message_for = [&](const std::string& family) -> std::string {
    std::ofstream(folder_ / "config.json") << R"({"model_type": )" << family << "}";
    try {
      (void)load_roberta_config(folder_.string());
    } catch (const ErrorException& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  EXPECT_THAT(message_for(std::string(200'000, '[') + std::string(200'000, ']')),
              AllOf(HasSubstr("config.json"), HasSubstr("nested too deeply")));
  EXPECT_LT(message_for('"' + std::string(20'000, 'x') + '"').size(), 400U);
}

TEST_F(Pretrained, AMissingFieldHasTheDefaultOfTransformers) {
  copy("xlmr");
  const auto read = [&](const std::string& text) {
    std::ofstream(folder_ / "config.json") << text;
    return load_roberta_config(folder_.string());
  };
  const RobertaConfig roberta = read(R"({"model_type": "roberta"})");
  EXPECT_EQ(roberta.layer_norm_eps, 1e-12);
  EXPECT_EQ(roberta.max_position_embeddings, 512);
  EXPECT_EQ(roberta.type_vocab_size, 2);
  EXPECT_EQ(roberta.vocab_size, 50265);
  EXPECT_EQ(read(R"({"model_type": "camembert"})").vocab_size, 30522);
  EXPECT_EQ(RobertaConfig().layer_norm_eps, 1e-5) << "of a new model it stays";
  copy("t5_scale");
  fs::remove(folder_ / "model.safetensors");
  std::ofstream(folder_ / "config.json") << R"({"model_type": "mt5"})";
  const T5Config mt5 = load_t5_config(folder_.string());
  EXPECT_EQ(mt5.vocab_size, 250112);
  EXPECT_EQ(mt5.num_heads, 6);
  EXPECT_EQ(mt5.num_decoder_layers, 8);
  EXPECT_EQ(mt5.activation(), "gelu_new");
  EXPECT_TRUE(mt5.gated());
  EXPECT_FALSE(mt5.tie_word_embeddings);
}

TEST_F(Pretrained, AFamilyIsWrittenAsWhatItWas) {
  for (const auto& [family, architecture] :
       std::vector<std::pair<std::string, std::string>>{{"roberta", "RobertaForMaskedLM"},
                                                        {"xlm-roberta", "XLMRobertaForMaskedLM"},
                                                        {"camembert", "CamembertForMaskedLM"}}) {
    copy("xlmr");
    write_config([&name = family](nlohmann::json& config) { config["model_type"] = name; });
    const RobertaConfig config = load_roberta_config(folder_.string());
    save_roberta_config(folder_.string(), config);
    const nlohmann::json written = test::read_json((folder_ / "config.json").string());
    EXPECT_EQ(written.at("model_type"), family);
    EXPECT_EQ(written.at("architectures").at(0), architecture);
    expect_the_loss(folder_.string());
  }
  copy("t5_scale");
  write_config([](nlohmann::json& config) { config["model_type"] = "mt5"; });
  const T5Config config = load_t5_config(folder_.string());
  EXPECT_TRUE(config.tie_word_embeddings);
  save_t5_config(folder_.string(), config);
  EXPECT_EQ(test::read_json((folder_ / "config.json").string()).at("model_type"), "mt5");
  expect_the_loss(folder_.string());
}

}  // namespace
}  // namespace millrace::pretrained_test
