#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/safetensors/reader.h"
#include "millrace/formats/safetensors/writer.h"

namespace millrace::safetensors_test {
namespace {

namespace fs = std::filesystem;

class Safetensors : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("millrace_safetensors_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    path_ = (folder_ / "model.safetensors").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// A file of any header and body.
  void write(const std::string& header, size_t body_bytes, int64_t claimed_length = -1) const {
    const uint64_t length = claimed_length < 0 ? header.size() : static_cast<uint64_t>(claimed_length);
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << header << std::string(body_bytes, '\1');
  }
  std::string error() const {
    try {
      const SafetensorsFile file(path_);
    } catch (const ErrorException& e) {
      EXPECT_EQ(e.error().shard, path_);
      return e.error().message;
    }
    return "no error";
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(Safetensors, ReadsWhatItWrote) {
  const std::vector<float> weights = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> ids = {7, -8};
  const std::vector<NamedTensor> tensors = {
      {"dense.weight", TensorType::kF32, {2, 3}, std::as_bytes(std::span(weights))},
      {"ids", TensorType::kI64, {2}, std::as_bytes(std::span(ids))},
      {"empty", TensorType::kF32, {0, 4}, {}}};
  write_safetensors(path_, tensors, {{"format", "pt"}});
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.values<float>("dense.weight"), weights);
  EXPECT_EQ(file.values<int64_t>("ids"), ids);
  EXPECT_THAT(file.values<float>("empty"), testing::IsEmpty());
  EXPECT_THAT(file.find("dense.weight")->shape, testing::ElementsAre(2, 3));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.find("none"), nullptr);
  EXPECT_THROW((void)file.values<float>("none"), ErrorException);
  EXPECT_THROW((void)file.values<double>("dense.weight"), ErrorException);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1) << "no temporary file is left";
}

TEST_F(Safetensors, RefusesEachKindOfDamageWithItsOwnMessage) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  write(good, 8);
  EXPECT_EQ(error(), "no error");
  std::ofstream(path_, std::ios::binary) << "abc";
  EXPECT_EQ(error(), "safetensors: 3 bytes; the length of the header needs 8");
  write(good, 8, int64_t{1} << 62);
  EXPECT_EQ(error(), "safetensors: a header of 4611686018427387904 bytes where 62 are left");
  write("{\"a\":", 8);
  EXPECT_EQ(error(), "safetensors: the header is not JSON");
  write("[1,2]", 8);
  EXPECT_EQ(error(), "safetensors: the header is not a JSON object");
  write(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
      8);
  EXPECT_EQ(error(), "safetensors: the header names 'a' twice");
  write(R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8);
  EXPECT_EQ(error(), "safetensors: tensor 'a' has no dtype");
  write(R"({"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", 8);
  EXPECT_EQ(error(), "safetensors: tensor 'a' has dtype F99; F32, F64, F16, BF16, I32, I64 and U8 are read");
  write(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,16]}})", 8);
  EXPECT_EQ(error(), "safetensors: tensor 'a' lies at [0, 16) of 8 bytes");
  write(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8);
  EXPECT_EQ(error(), "safetensors: tensor 'a' has 8 bytes, its shape and type need 12");
  write(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8);
  EXPECT_EQ(error(), "safetensors: tensor 'a' has a shape that is not a list of sizes");
  write(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8);
  EXPECT_EQ(error(), "safetensors: tensor 'a' has a shape whose size overflows");
  write(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8);
  EXPECT_EQ(error(), "safetensors: bytes [0, 4) belong to no tensor");
  write(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
      8);
  EXPECT_EQ(error(), "safetensors: tensor 'b' overlaps the one before it");
  for (const char* character : {"\\u0000", "\\n", "\\u001b", "\\u007f", "\\u009b"}) {
    const std::string name = std::string("a") + character + "b";
    write(fmt::format(R"({{"{}":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}}})", name), 8);
    EXPECT_EQ(error(), fmt::format("safetensors: the name of tensor '{}' has a control character", name));
  }
  write(R"({"\u00e9":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  EXPECT_EQ(error(), "no error");
  write(R"({"a":{"dtype":"F\u0000","shape":[2],"data_offsets":[0,8]}})", 8);
  EXPECT_EQ(error(), "safetensors: tensor 'a' has dtype F\\u0000; F32, F64, F16, BF16, I32, I64 and U8 are read");
  write(R"({"\u0000":1,"\u0000":1})", 8);
  EXPECT_EQ(error(), "safetensors: the header names '\\u0000' twice");
  write(R"({"__metadata__":{"\u0000":1}})", 0);
  EXPECT_EQ(error(), "safetensors: __metadata__ '\\u0000' is not a string");
  write(good, 9);
  EXPECT_EQ(error(), "safetensors: 1 bytes after the last tensor");
}

TEST_F(Safetensors, RefusesAByte0BehindTheHeaderAsTheReferenceDoes) {
  using std::string_literals::operator""s;
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  for (const std::string& rest : {"\0"s, "\0,\"b\":{}"s}) {
    write(good + rest, 8);
    EXPECT_EQ(error(), "safetensors: the header: not JSON (byte 55 is 0)");
  }
  write(good + "  ", 8);
  EXPECT_EQ(error(), "no error");
}

TEST_F(Safetensors, ReadsMetadataThatIsNull) {
  write(R"({"__metadata__":null,"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  const SafetensorsFile file(path_);
  EXPECT_TRUE(file.metadata().empty());
  EXPECT_EQ(file.values<float>("a").size(), 2U);
  write(R"({"__metadata__":1,"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  EXPECT_EQ(error(), "safetensors: __metadata__ is not an object");
}

TEST_F(Safetensors, TakesNoMemoryForWhatTheHeaderDoesNotAccountFor) {
  const auto error_of_long_file = [&] {
    fs::resize_file(path_, uint64_t{1} << 40);
    return error();
  };
  write("", 0);
  EXPECT_EQ(error_of_long_file(), "safetensors: the header is not JSON");
  write("{}", 0);
  EXPECT_EQ(error_of_long_file(), "safetensors: 1099511627766 bytes after the last tensor");
  write("{}", 0, int64_t{1} << 32);
  EXPECT_EQ(error_of_long_file(), "safetensors: a header of 4294967296 bytes; at most 100000000 are allowed");
}

TEST_F(Safetensors, RefusesToWriteWhatItCouldNotRead) {
  const std::vector<float> values = {1, 2};
  const NamedTensor tensor{"a", TensorType::kF32, {2}, std::as_bytes(std::span(values))};
  EXPECT_THROW(write_safetensors(path_, std::vector{tensor, tensor}), ErrorException);
  NamedTensor misshapen = tensor;
  misshapen.shape = {3};
  EXPECT_THROW(write_safetensors(path_, std::vector{misshapen}), ErrorException);
  NamedTensor misnamed = tensor;
  misnamed.name = "a\nb";
  EXPECT_THROW(write_safetensors(path_, std::vector{misnamed}), ErrorException);
  for (const char* name : {"__metadata__", "a\xff"}) {
    misnamed.name = name;
    EXPECT_THROW(write_safetensors(path_, std::vector{misnamed}), ErrorException) << name;
  }
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{-1, -2}, {2, int64_t{1} << 32, int64_t{1} << 32}, {}}) {
    misshapen.shape = shape;
    EXPECT_THROW(write_safetensors(path_, std::vector{misshapen}), ErrorException);
  }
  NamedTensor none{"none", TensorType::kF32, {int64_t{1} << 32, int64_t{1} << 32}, {}};
  EXPECT_THROW(write_safetensors(path_, std::vector{none}), ErrorException);
  EXPECT_THROW(write_safetensors(path_, std::vector{tensor}, {{"\xff", "pt"}}), ErrorException);
  EXPECT_THROW(write_safetensors(path_, std::vector{tensor}, {{"format", "\xff"}}), ErrorException);
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_THROW(write_safetensors((folder_ / "no" / "such").string(), std::vector{tensor}), ErrorException);
}

}  // namespace
}  // namespace millrace::safetensors_test
