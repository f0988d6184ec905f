#include "millrace/ops/parse/decode_raw.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/columnar/column_builder.h"
#include "millrace/ops/sources/rows.h"
#include "tests/support/operator_chain.h"

namespace millrace::decode_raw_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using namespace std::string_literals;

// Each string an element, with its number beside it.
Block block_of(const std::vector<std::string>& strings, BufferPool& pool) {
  const auto schema = std::make_shared<const Schema>(std::vector<FeatureSpec>{
      {.name = "raw", .dtype = DType::kBytes, .shape = {}}, {.name = "i", .dtype = DType::kInt64, .shape = {}}});
  ColumnBuilder raw(pool, (*schema)[0]);
  Column number = Column::fixed(pool, DType::kInt64, {}, strings.size());
  for (size_t i = 0; i < strings.size(); ++i) {
    raw.append_view(raw.store(strings[i]));
    number.mutable_values<int64_t>(i)[0] = static_cast<int64_t>(i);
  }
  return {schema, {raw.finish(), number}, strings.size()};
}

std::vector<std::string> decoded(const std::vector<std::string>& strings, RawType type,
                                 const DecodeRawOptions& options = {}) {
  BufferPool pool;
  const Block block = block_of(strings, pool);
  const Block made = DecodeRawOperator(block.schema(), "raw", type, options).apply(block, pool);
  std::vector<std::string> elements;
  for (size_t i = 0; i < made.num_elements(); ++i) elements.push_back(test::print_element(made, i));
  return elements;
}

TEST(DecodeRaw, ReadsNumbersOfEachTypeInBothByteOrders) {
  EXPECT_THAT(decoded({"\x00\x7f\x80\xff"s, ""}, RawType::kUint8),
              ElementsAre("raw=[0,127,128,255] i=0", "raw=[] i=1"));
  EXPECT_THAT(decoded({"\x00\x7f\x80\xff"s}, RawType::kInt8), ElementsAre("raw=[0,127,-128,-1] i=0"));
  EXPECT_THAT(decoded({"\x01\x02\xff\xff"s}, RawType::kUint16), ElementsAre("raw=[513,65535] i=0"));
  EXPECT_THAT(decoded({"\x01\x02\xff\xfe"s}, RawType::kInt16, {.little_endian = false}),
              ElementsAre("raw=[258,-2] i=0"));
  EXPECT_THAT(decoded({"\x01\x00\x00\x80"s}, RawType::kInt32), ElementsAre("raw=[-2147483647] i=0"));
  EXPECT_THAT(decoded({"\x00\x00\x00\x00\x00\x00\x00\x05"s}, RawType::kInt64, {.little_endian = false}),
              ElementsAre("raw=[5] i=0"));
  EXPECT_THAT(decoded({"\x00\x00\x80\x3f\x00\x00\x00\xc0"s}, RawType::kFloat32), ElementsAre("raw=[1,-2] i=0"));
  EXPECT_THAT(decoded({"\x3f\x80\x00\x00"s}, RawType::kFloat32, {.little_endian = false}), ElementsAre("raw=[1] i=0"));
}

// Bytes and values as tf.io.decode_raw has them, after tf.cast.
TEST(DecodeRaw, ReadsTypesThatNoColumnHasAsThoseThatHoldThem) {
  EXPECT_THAT(decoded({"\x00\x00\x00\x00\x00\x00\xf8\x3f\x00\x00\x00\x00\x00\x00\x00\xc0"s
                       "\x55\x55\x55\x55\x55\x55\xd5\x3f\xe8\x07\x00\x00\x00\x00\x00\x00"s
                       "\x00\x00\x00\x00\x00\x00\xf0\x7f"s},
                      RawType::kFloat64),
              ElementsAre("raw=[1.5,-2,0.33333334,0,inf] i=0"));
  EXPECT_THAT(decoded({"\x3f\xf8\x00\x00\x00\x00\x00\x00"s}, RawType::kFloat64, {.little_endian = false}),
              ElementsAre("raw=[1.5] i=0"));
  EXPECT_THAT(decoded({"\x00\x3e\x00\xc0\x55\x35\x01\x00\xff\x7b\x00\xfc"s}, RawType::kFloat16),
              ElementsAre("raw=[1.5,-2,0.33325195,5.9604645e-08,65504,-inf] i=0"));
  EXPECT_THAT(decoded({"\x3e\x00\xc0\x00"s}, RawType::kFloat16, {.little_endian = false}),
              ElementsAre("raw=[1.5,-2] i=0"));
  EXPECT_THAT(decoded({"\xc0\x3f\x00\xc0\xab\x3e\x4a\x71"s}, RawType::kBfloat16),
              ElementsAre("raw=[1.5,-2,0.33398438,1.00025555e+30] i=0"));
  EXPECT_THAT(decoded({"\x01\x00\x01\x02"s}, RawType::kBool), ElementsAre("raw=[1,0,1,1] i=0"));
}

TEST(DecodeRaw, BytesStayBytesWhereThatIsAskedFor) {
  EXPECT_THAT(decoded({"\x00\x7f\x80\xff"s, ""}, RawType::kUint8, {.dtype = DType::kUint8}),
              ElementsAre("raw=[0,127,128,255] i=0", "raw=[] i=1"));
  EXPECT_THAT(decoded({"abcd"}, RawType::kUint8, {.shape = {{2, 2}}, .dtype = DType::kUint8}),
              ElementsAre("raw=[[97,98],[99,100]] i=0"));
}

TEST(DecodeRaw, AFloat64BeyondFloat32IsAnError) {
  EXPECT_THAT(decoded({"\x00\x00\x00\x00\x00\x00\xf8\x3f\x00\x00\x00\x00\x00\x00\xf0\x47"s,
                       "\x00\x00\x00\xe0\xff\xff\xef\x47"s},
                      RawType::kFloat64),
              ElementsAre(HasSubstr("parse: feature 'raw': the value 3.402823669209385e+38 is beyond float32"),
                          "raw=[3.4028235e+38] i=1"));
}

TEST(DecodeRaw, GivesTheShapeAskedForAndRefusesAnotherNumberOfValues) {
  EXPECT_THAT(decoded({"abcdef", "abcde", "ghijkl"}, RawType::kUint8, {.shape = {{2, 3}}}),
              ElementsAre("raw=[[97,98,99],[100,101,102]] i=0",
                          "error: wrong_shape: feature 'raw': has 5 values, shape [2,3] needs 6 (stage decode_raw)",
                          "raw=[[103,104,105],[106,107,108]] i=2"));
  EXPECT_THAT(decoded({"abc", "abcd"}, RawType::kInt32),
              ElementsAre("error: parse: feature 'raw': 3 bytes are no whole number of int32 (stage decode_raw)",
                          "raw=[1684234849] i=1"));
}

TEST(DecodeRaw, ErrorsBeforeItPass) {
  BufferPool pool;
  Block block = block_of({"ab", "cd"}, pool);
  block.add_error(0, std::make_shared<const Error>(Error{.code = ErrorCode::kPayloadCrc, .message = "from before"}));
  const Block made = DecodeRawOperator(block.schema(), "raw", RawType::kUint8).apply(block, pool);
  EXPECT_EQ(test::print_element(made, 0), "error: payload_crc: from before");
  EXPECT_EQ(test::print_element(made, 1), "raw=[99,100] i=1");
}

TEST(DecodeRaw, RefusesWhatCannotWorkInTheBuilder) {
  const auto refusal = [](const FeatureSpec& spec, const DecodeRawOptions& options, RawType type = RawType::kInt32) {
    try {
      const DecodeRawOperator op(std::make_shared<const Schema>(std::vector{spec}), "raw", type, options);
      return op.schema()->to_string();
    } catch (const ErrorException& error) {
      return std::string(error.what());
    }
  };
  const FeatureSpec scalar{.name = "raw", .dtype = DType::kBytes, .shape = {}};
  EXPECT_EQ(refusal(scalar, {}), "raw int32 [?]");
  EXPECT_EQ(refusal(scalar, {.shape = {{4, 2}}}), "raw int32 [4,2]");
  EXPECT_EQ(refusal(scalar, {.dtype = DType::kInt32}), "raw int32 [?]");
  EXPECT_EQ(refusal(scalar, {.dtype = DType::kUint8}, RawType::kUint8), "raw uint8 [?]");
  EXPECT_THAT(refusal(scalar, {.dtype = DType::kUint8}), HasSubstr("int32 comes as int32, not as uint8"));
  EXPECT_THAT(refusal(scalar, {.dtype = DType::kFloat32}, RawType::kUint8),
              HasSubstr("uint8 comes as int32 or uint8, not as float32"));
  EXPECT_THAT(refusal(scalar, {.shape = {{kVaries, 2}}}), HasSubstr("shape [?,2] must be fixed"));
  EXPECT_THAT(refusal({.name = "raw", .dtype = DType::kBytes, .shape = {3}}, {}), HasSubstr("put it before batch"));
  EXPECT_THAT(refusal({.name = "raw", .dtype = DType::kInt64, .shape = {}}, {}), HasSubstr("is int64 []"));
  EXPECT_THAT(refusal({.name = "other", .dtype = DType::kBytes, .shape = {}}, {}), HasSubstr("no feature 'raw'"));
}

}  // namespace
}  // namespace millrace::decode_raw_test
