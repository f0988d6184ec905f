#include "millrace/ops/parse/parse_tensor.h"

#include <bit>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/columnar/column_builder.h"
#include "millrace/formats/example/tensor_message.h"
#include "tests/ops/file_source_cases.h"
#include "tests/support/operator_chain.h"

namespace millrace::parse_tensor_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using namespace std::string_literals;

// Types of TensorFlow.
constexpr int kFloat = 1;
constexpr int kInt32 = 3;
constexpr int kUint8 = 4;
constexpr int kInt16 = 5;
constexpr int kString = 7;
constexpr int kInt64 = 9;
constexpr int kBool = 10;

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string field(uint32_t number, const std::string& content) {
  return varint(number << 3 | 2) + varint(content.size()) + content;
}

// Type and shape of a TensorProto; what follows is its content.
std::string tensor(int type, const std::vector<int64_t>& shape) {
  std::string dims;
  for (const int64_t size : shape) dims += field(2, varint(1 << 3) + varint(static_cast<uint64_t>(size)));
  return varint(1 << 3) + varint(static_cast<uint64_t>(type)) + field(2, dims);
}

template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::vector<std::string> parsed(const std::vector<std::string>& messages, DType dtype, const Shape& shape,
                                const ParseTensorOptions& options = {}) {
  BufferPool pool;
  const auto schema =
      std::make_shared<const Schema>(std::vector<FeatureSpec>{{.name = "t", .dtype = DType::kBytes, .shape = {}}});
  ColumnBuilder builder(pool, (*schema)[0]);
  for (const std::string& message : messages) builder.append_view(builder.store(message));
  const Block block(schema, {builder.finish()}, messages.size());
  const Block made = ParseTensorOperator(schema, "t", dtype, shape, options).apply(block, pool);
  std::vector<std::string> elements;
  for (size_t i = 0; i < made.num_elements(); ++i) elements.push_back(test::print_element(made, i));
  return elements;
}

TEST(ParseTensor, ReadsWhatSerializeTensorWrites) {
  // tf.io.serialize_tensor(tf.constant([1.0, 2.0])), of tf.constant(["a", "bc"]) and of tf.constant([[1], [2]]).
  EXPECT_THAT(parsed({"\x08\x01\x12\x04\x12\x02\x08\x02\"\x08\x00\x00\x80?\x00\x00\x00@"s}, DType::kFloat32, {kVaries}),
              ElementsAre("t=[1,2]"));
  EXPECT_THAT(parsed({"\x08\x07\x12\x04\x12\x02\x08\x02"s + "B\x01" + "aB\x02" + "bc"}, DType::kBytes, {2}),
              ElementsAre("t=[a,bc]"));
  EXPECT_THAT(parsed({"\x08\x03\x12\x08\x12\x02\x08\x02\x12\x02\x08\x01\"\x08\x01\x00\x00\x00\x02\x00\x00\x00"s},
                     DType::kInt32, {2, 1}),
              ElementsAre("t=[[1],[2]]"));
}

TEST(ParseTensor, ReadsBothFormsOfContentOfEveryType) {
  const std::string floats = field(5, raw<float>({1.5F, -2}));
  EXPECT_THAT(parsed({tensor(kFloat, {2}) + field(4, raw<float>({1.5F, -2})), tensor(kFloat, {2}) + floats,
                      floats + tensor(kFloat, {2}),
                      tensor(kFloat, {2}) + "\x2d" + raw<float>({1.5F}) + "\x2d" + raw<float>({-2})},
                     DType::kFloat32, {2}),
              ElementsAre("t=[1.5,-2]", "t=[1.5,-2]", "t=[1.5,-2]", "t=[1.5,-2]"));
  EXPECT_THAT(parsed({tensor(kInt64, {1, 2}) + field(4, raw<int64_t>({-1, 1LL << 40})),
                      tensor(kInt64, {1, 2}) + field(10, varint(~0ULL) + varint(1ULL << 40)),
                      tensor(kInt64, {1, 2}) + varint(10 << 3) + varint(~0ULL) + varint(10 << 3) + varint(1ULL << 40)},
                     DType::kInt64, {kVaries, 2}),
              ElementsAre("t=[[-1,1099511627776]]", "t=[[-1,1099511627776]]", "t=[[-1,1099511627776]]"));
  EXPECT_THAT(
      parsed(
          {tensor(kInt32, {2}) + field(4, raw<int32_t>({-1, 7})), tensor(kInt32, {2}) + field(7, varint(~0ULL) + "\7"),
           tensor(kUint8, {2}) + field(4, "\xff\x07"), tensor(kUint8, {2}) + field(7, varint(255) + "\7"),
           tensor(kInt16, {2}) + field(4, raw<int16_t>({-1, 7})), tensor(kInt16, {2}) + field(7, varint(~0ULL) + "\7"),
           tensor(kBool, {2}) + field(4, "\1\0"s), tensor(kBool, {2}) + field(11, "\1\0"s)},
          DType::kInt32, {2}),
      ElementsAre("t=[-1,7]", "t=[-1,7]", "t=[255,7]", "t=[255,7]", "t=[-1,7]", "t=[-1,7]", "t=[1,0]", "t=[1,0]"));
  EXPECT_THAT(parsed({tensor(kString, {3}) + field(8, "a") + field(8, "") + field(8, "bc"),
                      tensor(kString, {3}) + field(4, "\1\0\2abc"s)},
                     DType::kBytes, {3}),
              ElementsAre("t=[a,,bc]", "t=[a,,bc]"));
}

TEST(ParseTensor, AListThatIsTooShortEndsWithItsLastValueAndOneThatIsTooLongIsCut) {
  EXPECT_THAT(parsed({tensor(kInt64, {4}) + field(10, "\1\2"s), tensor(kInt64, {4}),
                      tensor(kInt64, {4}) + field(10, "\1\2\3\4\5\6"s)},
                     DType::kInt64, {4}),
              ElementsAre("t=[1,2,2,2]", "t=[0,0,0,0]", "t=[1,2,3,4]"));
  EXPECT_THAT(parsed({tensor(kString, {3}) + field(8, "x"), tensor(kString, {3})}, DType::kBytes, {3}),
              ElementsAre("t=[x,x,x]", "t=[,,]"));
  EXPECT_THAT(parsed({tensor(kInt64, {}) + field(10, "\5"s)}, DType::kInt64, {}), ElementsAre("t=5"));
  EXPECT_THAT(parsed({tensor(kInt64, {0, 1LL << 20})}, DType::kInt64, {kVaries, kVaries}), ElementsAre("t=[]"));
}

// Shape and values of a message as the golden cases have them, or that it is refused.
nlohmann::json read_as(const std::string& message, const std::string& dtype) {
  try {
    BufferPool pool;
    const TensorMessage tensor = TensorMessage::read(message, pool);
    const DType as = dtype == "float32" ? DType::kFloat32
                     : dtype == "bytes" ? DType::kBytes
                     : dtype == "int32" ? DType::kInt32
                                        : DType::kInt64;
    EXPECT_TRUE(tensor.fits(as));
    const auto count = static_cast<size_t>(tensor.num_values());
    nlohmann::json values = nlohmann::json::array();
    const auto read = [&]<typename T>(std::vector<T> all, auto&& shown) {
      tensor.copy_to(as, reinterpret_cast<std::byte*>(all.data()));
      for (const T value : all) values.push_back(shown(value));
    };
    const auto same = [](auto value) { return value; };
    switch (as) {
      case DType::kFloat32:
        read(std::vector<float>(count), [](float value) { return std::bit_cast<uint32_t>(value); });
        break;
      case DType::kInt32: read(std::vector<int32_t>(count), same); break;
      case DType::kInt64: read(std::vector<int64_t>(count), same); break;
      case DType::kUint8: read(std::vector<uint8_t>(count), same); break;
      case DType::kBytes:
        read(std::vector<std::string_view>(count), [](std::string_view value) {
          std::string text;  // as UTF-8
          for (const char byte : value) {
            const auto unit = static_cast<unsigned char>(byte);
            if (unit >= 0x80) text += static_cast<char>(0xc0 | unit >> 6);
            text += static_cast<char>(unit >= 0x80 ? 0x80 | (unit & 0x3f) : unit);
          }
          return text;
        });
        break;
    }
    return {{"error", false}, {"shape", tensor.shape()}, {"values", values}};
  } catch (const ErrorException& e) {
    EXPECT_EQ(e.error().code, ErrorCode::kParse);
    return {{"error", true}};
  }
}

TEST(ParseTensor, GivesWhatTensorFlowGives) {
  size_t refused = 0;
  for (nlohmann::json one : test::operator_cases("parse_tensor.jsonl")) {
    SCOPED_TRACE(one.dump());
    const std::string message = test::bytes_of(one.at("message"));
    const std::string dtype = one.at("dtype");
    one.erase("message");
    one.erase("dtype");
    EXPECT_EQ(read_as(message, dtype), one);
    refused += one.at("error").get<bool>() ? 1 : 0;
  }
  EXPECT_GT(refused, 30u);
}

TEST(ParseTensor, GivesTheTypeThatIsAskedForWhereItHoldsTheValues) {
  constexpr int kDouble = 2;
  constexpr int kUint32 = 22;
  constexpr int kUint64 = 23;
  const std::string small = tensor(kUint8, {2}) + field(4, "\xff\x07");
  EXPECT_THAT(parsed({small}, DType::kInt64, {2}), ElementsAre("t=[255,7]"));
  EXPECT_THAT(parsed({small}, DType::kUint8, {2}), ElementsAre("t=[255,7]"));
  EXPECT_THAT(parsed({tensor(kUint8, {3}) + field(7, "\x05\xff\x01")}, DType::kUint8, {3}),
              ElementsAre("t=[5,255,255]"))
      << "a list, whose last value fills it up";
  const std::string wide = tensor(kInt64, {2}) + field(4, raw<int64_t>({-1, 7}));
  EXPECT_THAT(parsed({wide}, DType::kUint8, {2})[0], HasSubstr("the value -1 does not fit in uint8"));
  EXPECT_THAT(parsed({tensor(kInt64, {}) + field(4, raw<int64_t>({256}))}, DType::kUint8, {})[0],
              HasSubstr("the value 256 does not fit in uint8"));
  EXPECT_THAT(parsed({wide}, DType::kInt32, {2}), ElementsAre("t=[-1,7]"));
  EXPECT_THAT(parsed({tensor(kInt64, {}) + field(4, raw<int64_t>({1LL << 31}))}, DType::kInt32, {})[0],
              HasSubstr("parse: feature 't': the value 2147483648 does not fit in int32"));
  EXPECT_THAT(parsed({tensor(kUint32, {}) + field(16, varint(1ULL << 31))}, DType::kInt32, {})[0],
              HasSubstr("the value 2147483648 does not fit in int32"));
  EXPECT_THAT(parsed({tensor(kUint64, {}) + field(17, varint(1ULL << 63))}, DType::kInt64, {})[0],
              HasSubstr("the value 9223372036854775808 does not fit in int64"));
  EXPECT_THAT(parsed({tensor(kDouble, {2}) + field(6, raw<double>({0.1, -1e300}))}, DType::kFloat32, {2})[0],
              HasSubstr("the value -1e+300 is beyond float32"));
  EXPECT_THAT(parsed({tensor(kDouble, {}) + field(4, raw<double>({3.4028235677973366e38}))}, DType::kFloat32, {})[0],
              HasSubstr("is beyond float32"));
  EXPECT_THAT(parsed({tensor(kDouble, {}) + field(4, raw<double>({3.4028235677973362e38}))}, DType::kFloat32, {}),
              ElementsAre("t=3.4028235e+38"));
  EXPECT_THAT(parsed({tensor(kDouble, {2}) + field(6, "1234567")}, DType::kFloat32, {2})[0],
              HasSubstr("a packed list of float64 of 7 bytes"));
  EXPECT_THAT(parsed({small}, DType::kFloat32, {2})[0], HasSubstr("the tensor holds uint8, expected float32"));
  EXPECT_THAT(parsed({tensor(kDouble, {})}, DType::kBytes, {})[0],
              HasSubstr("the tensor holds float64, expected bytes"));
}

TEST(ParseTensor, AFewBytesCannotAskForAnyAmountOfMemory) {
  const std::string huge = tensor(kFloat, {1LL << 30, 1LL << 20}) + field(5, raw<float>({1}));
  EXPECT_THAT(
      parsed({huge}, DType::kFloat32, {kVaries, kVaries})[0],
      HasSubstr("wrong_shape: feature 't': a tensor of shape [1073741824,1048576] with only 1 of its values; at "
                "most 4096 are filled up"));
  EXPECT_THAT(parsed({tensor(kFloat, {1LL << 62, 1LL << 62})}, DType::kFloat32, {kVaries, kVaries})[0],
              HasSubstr("is too large"));
  EXPECT_THAT(parsed({tensor(kString, {1LL << 50}) + field(4, "abc")}, DType::kBytes, {kVaries})[0],
              HasSubstr("a content of 3 bytes for the shape"));
  EXPECT_THAT(parsed({tensor(kInt64, {3}) + field(10, "\1"s)}, DType::kInt64, {3}, {.max_filled_values = 2})[0],
              HasSubstr("at most 2 are filled up"));
}

// The sizes beside a 0 are free in the message, and what pads or splits the tensor multiplies them with others.
TEST(ParseTensor, ATensorWithoutValuesHasNoSizesThatTakeMemory) {
  const Shape three{kVaries, kVaries, kVaries};
  EXPECT_THAT(parsed({tensor(kInt64, {0, 1024, 3}), tensor(kInt64, {4096, 0, 4096}), tensor(kInt64, {0, 1LL << 24, 0})},
                     DType::kInt64, three),
              ElementsAre("t=[]", testing::StartsWith("t=[[],[],"), "t=[]"));
  EXPECT_THAT(
      parsed({tensor(kInt64, {1LL << 62, 0, 3})}, DType::kInt64, three)[0],
      HasSubstr("wrong_shape: feature 't': a tensor of shape [4611686018427387904,0,3] has no values; its other "
                "sizes may make at most 16777216"));
  EXPECT_THAT(parsed({tensor(kInt64, {0, 1LL << 62, 1LL << 62})}, DType::kInt64, three)[0], HasSubstr("has no values"));
  EXPECT_THAT(parsed({tensor(kInt64, {0, 0, (1LL << 24) + 1})}, DType::kInt64, three)[0], HasSubstr("has no values"));
  EXPECT_THAT(parsed({tensor(kInt64, {64, 65, 0})}, DType::kInt64, three)[0],
              HasSubstr("wrong_shape: feature 't': a tensor of shape [64,65,0] has 4160 rows without values, at most "
                        "4096 are taken (max_filled_values)"));
  EXPECT_THAT(parsed({tensor(kInt64, {2, 0, 5})}, DType::kInt64, three, {.max_filled_values = 2}),
              ElementsAre("t=[[],[]]"));
}

TEST(ParseTensor, OfAStringThatIsRepeatedTheBytesCount) {
  const auto repeated = [](size_t bytes) {
    return tensor(kString, {5}) + field(8, "a") + field(8, std::string(bytes, 'x'));
  };
  EXPECT_THAT(parsed({repeated(1365)}, DType::kBytes, {5})[0], testing::StartsWith("t=[a,xxx"));
  EXPECT_THAT(
      parsed({repeated(1366)}, DType::kBytes, {5})[0],
      HasSubstr("wrong_shape: feature 't': a tensor of shape [5] repeats a string of 1366 bytes 3 times; at most "
                "4096 bytes are filled up (max_filled_values)"));
  EXPECT_THAT(parsed({tensor(kString, {1}) + field(8, std::string(5000, 'x'))}, DType::kBytes, {1})[0],
              testing::StartsWith("t=[xxx"));
}

// As TensorFlow, which reads the content only where there are values.
TEST(ParseTensor, TheContentOfATensorWithoutValuesDoesNotMatter) {
  EXPECT_THAT(parsed({tensor(kFloat, {0}) + field(4, "abc"), tensor(kInt64, {0}) + field(4, "12345678")},
                     DType::kFloat32, {0})[0],
              "t=[]");
  EXPECT_THAT(parsed({tensor(kString, {0}) + field(4, "abc")}, DType::kBytes, {kVaries}), ElementsAre("t=[]"));
  EXPECT_THAT(parsed({tensor(kFloat, {0}) + field(5, "abc")}, DType::kFloat32, {0})[0],
              HasSubstr("a packed list of float32 of 3 bytes"));
}

TEST(ParseTensor, WhatDoesNotFitIsTheElementsError) {
  const std::string good = tensor(kFloat, {2}) + field(4, raw<float>({1, 2}));
  EXPECT_THAT(parsed({good}, DType::kInt64, {2})[0], HasSubstr("parse: feature 't': the tensor holds float32, expected "
                                                               "int64 (stage parse_tensor)"));
  EXPECT_THAT(parsed({good}, DType::kFloat32, {3})[0],
              HasSubstr("wrong_shape: feature 't': has shape [2], expected [3]"));
  EXPECT_THAT(parsed({good}, DType::kFloat32, {2, kVaries})[0], HasSubstr("has shape [2], expected [2,?]"));
  EXPECT_THAT(parsed({good.substr(0, good.size() - 1)}, DType::kFloat32, {2})[0], HasSubstr("a length of 8 where 7"));
  EXPECT_THAT(parsed({tensor(8, {2})}, DType::kFloat32, {2})[0], HasSubstr("TensorFlow's type 8"));
  EXPECT_THAT(parsed({""}, DType::kFloat32, {2})[0], HasSubstr("TensorFlow's type 0"));
  EXPECT_THAT(parsed({tensor(kFloat, {2}) + field(4, "abc")}, DType::kFloat32, {2})[0],
              HasSubstr("a content of 3 bytes for the shape [2] at byte 10 of the tensor"));
  EXPECT_THAT(parsed({tensor(kFloat, {-1})}, DType::kFloat32, {kVaries})[0], HasSubstr("a dimension of size -1"));
  EXPECT_THAT(parsed({varint(1 << 3) + "\1" + field(2, "\x18\1"s)}, DType::kFloat32, {})[0], HasSubstr("unknown rank"));
  EXPECT_THAT(parsed({tensor(kString, {2}) + field(4, "\1\2ab"s)}, DType::kBytes, {2})[0],
              HasSubstr("a string is cut off"));
  EXPECT_THAT(parsed({tensor(kString, {1}) + field(4, "\1ab"s)}, DType::kBytes, {1})[0],
              HasSubstr("after the last string"));
}

}  // namespace
}  // namespace millrace::parse_tensor_test
