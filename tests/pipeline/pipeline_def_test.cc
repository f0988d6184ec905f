#include "millrace/pipeline/definition/pipeline_def.h"

#include <array>
#include <memory>
#include <set>

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/whole_file.h"
#include "millrace/pipeline/definition/function_registry.h"
#include "millrace/pipeline/definition/methods.h"
#include "pipeline/definition/pipeline_def.pb.h"
#include "tests/support/places.h"
#include "tests/support/process_locale.h"
#include "tests/support/temporary_folder.h"

namespace millrace::pipeline_def_test {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ErrorException& e) {
    EXPECT_EQ(e.error().code, ErrorCode::kInvalidArgument);
    return e.what();
  }
  return "no error";
}

Dataset from_text(std::string_view text) { return PipelineDef::from_text(text).dataset(); }
std::string refusal(std::string_view text) {
  return message_of([&] { (void)from_text(text); });
}

TEST(PipelineDef, IsWrittenAsAStepForEachMethod) {
  const Dataset dataset = Dataset::range(0, 100).shuffle(10, {.seed = 42}).padded_batch(8, {.value = int64_t{-1}});
  EXPECT_EQ(PipelineDef::of(dataset).to_text(),
            R"(version: 1
steps {
  range {
    start: 0
    stop: 100
    step: 1
    feature: "value"
  }
}
steps {
  shuffle {
    buffer_size: 10
    seed: 42
    reshuffle_each_iteration: true
  }
}
steps {
  padded_batch {
    size: 8
    padding {
      length {
      }
      value {
        integer: -1
      }
      drop_remainder: false
    }
  }
}
)");
}

TEST(PipelineDef, OptionsLeftOutHaveTheirDefaults) {
  const Dataset read = from_text(R"(
    version: 1
    steps { interleave {}
            inputs { steps { range { start: 0 stop: 9 } } }
            inputs { steps { range { start: 20 stop: 29 step: 3 } } steps { take { count: 2 } } } }
    steps { repeat {} }
    steps { batch { size: 4 } })");
  const Dataset built =
      Dataset::interleave({Dataset::range(0, 9), Dataset::range(20, 29, 3).take(2)}).repeat().batch(4);
  EXPECT_EQ(read.explain({.threads = 1}), built.explain({.threads = 1}));
}

TEST(PipelineDef, FilesKeepTheirFormByTheirName) {
  const test::TemporaryFolder folder;
  const PipelineDef def = PipelineDef::of(Dataset::range(1, 5).batch(2));
  for (const char* name : {"def.txtpb", "def.json"}) {
    def.save(folder.path(name));
    EXPECT_EQ(PipelineDef::load(folder.path(name)).difference(def), "") << name;
  }
  EXPECT_THAT(read_whole_file(folder.path("def.json")), HasSubstr("\"drop_remainder\": false"));
  EXPECT_THAT(read_whole_file(folder.path("def.txtpb")), HasSubstr("drop_remainder: false"));
}

TEST(PipelineDef, NumbersAreTheSameInEveryLocale) {
  const auto everything = [] {
    const Dataset dataset =
        Dataset::rows({MemoryFeature{"record", std::vector<std::string>{"1.75;2", "-0.5;1234567"}}})
            .parse_csv({{.name = "x", .dtype = DType::kFloat32}, {.name = "n", .dtype = DType::kInt64}},
                       {.delimiter = ';'})
            .add("x", 0.25)
            .batch(2);
    const PipelineDef def = PipelineDef::of(dataset);
    Pipeline pipeline = PipelineDef::from_json(def.to_json()).dataset().start();
    const auto batch = pipeline.next();
    EXPECT_THAT(batch->values<float>("x"), ElementsAre(2.0F, -0.25F));
    EXPECT_THAT(batch->values<int64_t>("n"), ElementsAre(2, 1234567));
    EXPECT_EQ(PipelineDef::from_text(def.to_text()).difference(def), "");
    return def.to_text() + def.to_json() + dataset.explain({.threads = 1});
  };
  const std::string expected = everything();
  EXPECT_THAT(expected, HasSubstr("0.25"));
  for (const char* name : {"de_DE", "ps_AF"}) {
    const test::ProcessLocale locale(name);
    EXPECT_EQ(everything(), expected) << name;
  }
}

TEST(PipelineDef, TextIsItselfInJson) {
  const PipelineDef def = PipelineDef::from_json(R"({"version": 1, "steps": [
      {"rows": {"features": [{"name": "record", "dtype": "BYTES", "texts": ["abcd;", "null;é"]}]}},
      {"parseCsv": {"format": {"delimiter": ";", "missing": "null"}, "columns": [
          {"name": "a", "dtype": "BYTES", "default_value": {"text": "none"}},
          {"name": "b", "dtype": "BYTES", "default_value": {"text_bytes": "/wA="}}]}},
      {"paddedBatch": {"size": 2, "padding": {"value": {"text": "pads"}}}}]})");
  Pipeline pipeline = def.dataset().start();
  const auto batch = pipeline.next();
  ASSERT_TRUE(batch);
  EXPECT_THAT(batch->values<std::string_view>("a"), ElementsAre("abcd", "none"));
  EXPECT_THAT(batch->values<std::string_view>("b"), ElementsAre(std::string_view("\xff\0", 2), "é"));
  EXPECT_THAT(def.to_json(), HasSubstr(R"("missing": "null")"));
}

TEST(PipelineDef, BytesThatAreNoTextStandInFieldsOfTheirOwn) {
  const std::string odd("\xff\0z", 3);
  const Dataset dataset = Dataset::rows({MemoryFeature{"odd", std::vector<std::string>{"text", odd}},
                                         MemoryFeature{"even", std::vector<std::string>{"abcd", std::string(1, '\0')}}})
                              .padded_batch(2, {.value = odd});
  const PipelineDef def = PipelineDef::of(dataset);
  const std::string json = def.to_json();
  EXPECT_THAT(json, HasSubstr(R"("text_bytes": "/wB6")"));
  EXPECT_THAT(json, HasSubstr(R"("texts_bytes": [)"));
  EXPECT_THAT(json, HasSubstr(R"("abcd",)"));
  for (const PipelineDef& read : {PipelineDef::from_json(json), PipelineDef::from_text(def.to_text())}) {
    EXPECT_EQ(read.difference(def), "");
    EXPECT_EQ(PipelineDef::of(read.dataset()).difference(def), "");
    Pipeline pipeline = read.dataset().start();
    EXPECT_EQ(pipeline.next()->values<std::string_view>("odd")[1], odd);
  }

  EXPECT_THAT(
      message_of([] {
        (void)PipelineDef::from_json(
            R"({"version": 1, "steps": [{"padded_batch": {"size": 2, "padding": {"value": {"text_bytes": ";"}}}}]})");
      }),
      HasSubstr("fields named *_bytes are base64, those without _bytes the text itself"));
  EXPECT_THAT(refusal(R"(version: 1 steps { range { start: 0 stop: 3 } }
                         steps { parse_csv { format { delimiter: ";" delimiter_bytes: ";" } } })"),
              HasSubstr("there are both 'delimiter' and 'delimiter_bytes'"));
  EXPECT_THAT(refusal(R"(version: 1 steps { rows { features { name: "x" dtype: BYTES texts: "\377" } } })"),
              HasSubstr("'texts' is no UTF-8; 'texts_bytes' is for such"));
}

TEST(PipelineDef, NamesOfFilesMayBeAnyBytes) {
  const test::TemporaryFolder folder;
  const std::string name = folder.path("line\xff.txt");
  test::write_file(name, "one\n");
  test::write_file(folder.path("line.txt"), "another\n");
  const Dataset dataset = Dataset::text_lines(Shards::files({name})).cache({.directory = folder.path("kept\xfe")});
  const PipelineDef def = PipelineDef::of(dataset);
  EXPECT_THAT(def.to_text(), HasSubstr("files_bytes: "));
  for (const PipelineDef& read : {PipelineDef::from_json(def.to_json()), PipelineDef::from_text(def.to_text())}) {
    EXPECT_EQ(read.difference(def), "");
    Pipeline pipeline = read.dataset().start();
    const std::optional<Batch> line = pipeline.next();
    ASSERT_TRUE(line);
    EXPECT_EQ(line->values<std::string_view>("record")[0], "one");
  }
  // A text that has no form for bytes is refused, and not cut.
  EXPECT_THAT(message_of([] { (void)PipelineDef::of(Dataset::range(0, 3, 1, "a\xff")); }),
              HasSubstr("'feature' is no UTF-8: 'a\\xff'"));
}

TEST(PipelineDef, DifferencesNameTheStepAndBothValues) {
  const PipelineDef a = PipelineDef::of(Dataset::range(1, 5).batch(2));
  const PipelineDef b = PipelineDef::of(Dataset::range(1, 5).batch(3).prefetch(1));
  EXPECT_EQ(a.difference(a), "");
  EXPECT_THAT(a.difference(b), HasSubstr("modified: steps[1].batch.size: 2 -> 3\n"));
  EXPECT_THAT(a.difference(b), HasSubstr("added: steps[2]: "));
}

TEST(PipelineDef, WhatCannotBeWrittenIsNamed) {
  const Dataset mapped =
      Dataset::range(0, 3).map(RowFunction{.name = "secret", .function = [](const RowView&, RowWriter&) {}});
  // Other tests of one process may have registered theirs.
  EXPECT_THAT(
      message_of([&] { (void)PipelineDef::of(mapped.batch(2)); }),
      ContainsRegex("^invalid_argument: the dataset cannot be written as a pipeline definition: map: row function "
                    "'secret' is not registered \\(register_function\\); there are: (none|[a-z._]+(, [a-z._]+)*)$"));
  const Dataset own = Dataset::from_operator({Dataset::range(0, 3)}, [](std::span<const SchemaPtr> inputs) {
    return std::make_shared<const ArithmeticOperator>(inputs[0], "value", Arithmetic::kAdd, int64_t{1});
  });
  EXPECT_THAT(message_of([&] { (void)PipelineDef::of(own); }),
              HasSubstr("an operator of its own ('add', from_operator)"));
}

TEST(PipelineDef, RegisteredFunctionsAreFoundByName) {
  register_function(
      RowFunction{.name = "twice", .writes = {{.name = "value"}}, .function = [](const RowView& row, RowWriter& out) {
                    out.set("value", 2 * row.value<int64_t>("value"));
                  }});
  Pipeline pipeline =
      from_text(R"(version: 1 steps { range { start: 7 stop: 8 } } steps { map { function: "twice" } })").start();
  EXPECT_EQ(pipeline.next()->values<int64_t>("value")[0], 14);
  EXPECT_THAT(refusal(R"(version: 1 steps { range { start: 7 stop: 8 } } steps { map { function: "thrice" } })"),
              ContainsRegex("^invalid_argument: pipeline: steps\\[1\\]: map: row function 'thrice' is not registered "
                            "\\(register_function\\); there are: (.*, )?twice(, .*)?$"));
  EXPECT_THAT(message_of([] { register_function(RowFunction{.name = "twice"}); }),
              HasSubstr("there is a row function 'twice' already"));
  EXPECT_THAT(message_of([] { register_function(RowFunction{}); }), HasSubstr("a row function without a name"));
}

TEST(PipelineDef, WhatIsWrongIsSaidWithItsPlace) {
  EXPECT_EQ(message_of([] { (void)PipelineDef::from_text("version: 1\nsteps { batsh { size: 2 } }", "my.txtpb"); }),
            "invalid_argument: my.txtpb:2:15: Message type \"millrace.def.Step\" has no field named \"batsh\".");
  EXPECT_THAT(
      message_of([] { (void)PipelineDef::from_json(R"({"version": 1, "steps": [{"batsh": {}}]})", "my.json"); }),
      HasSubstr("my.json: "));
  EXPECT_EQ(message_of([] {
              (void)PipelineDef::from_json(std::string_view("{\"version\": 1, \"steps\": []}\0}", 29), "my.json");
            }),
            "invalid_argument: my.json: not JSON (byte 28 is 0)");
  EXPECT_THAT(refusal("steps {}"), HasSubstr("'version' is missing, which is to be 1"));
  EXPECT_THAT(refusal("version: 2"), HasSubstr("version 2, where this Millrace reads version 1"));
  EXPECT_THAT(refusal("version: 1"), HasSubstr("steps: there are no steps"));
  EXPECT_THAT(refusal("version: 1 steps {}"), HasSubstr("steps[0]: no operator is named"));
  EXPECT_THAT(refusal("version: 1 steps { range { start: 1 } }"), HasSubstr("steps[0]: range: 'stop' is missing"));
  const std::string range = "version: 1 steps { range { start: 0 stop: 9 } } ";
  EXPECT_THAT(refusal(range + "steps { batch { size: 0 } }"),
              HasSubstr("steps[1]: batch: batch: size must be at least 1"));
  EXPECT_THAT(refusal(range + range.substr(11)), HasSubstr("steps[1]: range: it takes no input, not 1"));
  EXPECT_THAT(refusal("version: 1 steps { batch { size: 2 } }"),
              HasSubstr("steps[0]: batch: it takes one input, not 0"));
  EXPECT_THAT(refusal(range + "steps { zip {} inputs { steps { range { start: 0 stop: 1 } } } }"),
              HasSubstr("steps[1]: it has inputs and stands after a step"));
  EXPECT_THAT(refusal("version: 1 steps { zip {} inputs { } }"),
              HasSubstr("steps[0].inputs[0].steps: there are no steps"));
  EXPECT_THAT(refusal(range + "steps { cast { feature: \"value\" to: UNSPECIFIED } }"),
              HasSubstr("steps[1]: cast: 'to' is not one of the names of DType"));
  EXPECT_THAT(refusal("version: 1 steps { tfrecord { shards {} } }"),
              HasSubstr("takes one of 'files', 'glob' and 'globs'"));
  EXPECT_THAT(refusal("version: 1 steps { tfrecord { shards { files: 'a' } compression: 'rar' } }"),
              HasSubstr("'compression' is none, zlib, gzip or zstd, not 'rar'"));
  EXPECT_THAT(refusal("version: 1 steps { tfrecord { shards { files: 'a' num_records: 1 num_records: 2 } } }"),
              HasSubstr("2 numbers of records for 1 shards"));
  EXPECT_THAT(refusal("version: 1 steps { rows { features { name: 'x' dtype: INT32 integers: 5000000000 } } }"),
              HasSubstr("5000000000 of 'x' is no int32"));
  EXPECT_THAT(
      refusal("version: 1 steps { rows { features { name: 'x' dtype: INT64 integers: 5 row_lengths { sizes: 2 } } } }"),
      HasSubstr("the row lengths of 'x' do not make up its 1 values"));
  EXPECT_THAT(refusal("version: 1 steps { rows { features { name: 'x' dtype: FLOAT32 integers: 5 } } }"),
              HasSubstr("'x' has values of another type than its dtype float32"));
  EXPECT_THAT(
      refusal("version: 1 steps { tfrecord { shards { files: 'a-1' num_records: 1 counts_from: 'a-{count}' } } }"),
      HasSubstr("takes either 'num_records' or 'counts_from'"));
  EXPECT_THAT(refusal(range + "steps { parse_example { features { kind: FIXED_LEN key: 'k' stored: INT64 "
                              "default_integers: 1 default_reals: 1 } } }"),
              HasSubstr("'k' has default values of several types"));
  EXPECT_THAT(refusal(range + "steps { padded_batch { size: 1 padding { length { fixed: 2305843009213693952 } } } }"),
              HasSubstr("length must be at most 2147483648, not 2305843009213693952"));
  EXPECT_THAT(
      refusal("version: 1 steps { rows { features { name: 'b' dtype: BYTES texts: 'x' } } } "
              "steps { decode_raw { feature: 'b' type: UINT8 shape { sizes: 4294967296 sizes: 4294967296 } } }"),
      HasSubstr("more than 1099511627776 values"));
}

TEST(PipelineDef, ANegativeZeroStaysInTheTextAndIsRefusedInJson) {
  const PipelineDef def = PipelineDef::from_text(
      "version: 1 steps { rows { features { name: 'x' dtype: FLOAT32 reals: 1 reals: -0.0 } } }");
  EXPECT_EQ(PipelineDef::from_text(def.to_text()).to_text(), def.to_text());
  EXPECT_THAT(message_of([&def] { (void)def.to_json(); }), HasSubstr("which has no -0: 'reals'"));
}

TEST(PipelineDef, ATextThatIsNoUtf8IsRefusedWhereItIsRead) {
  EXPECT_THAT(refusal("version: 1 steps { rows { features { name: '\\377' dtype: FLOAT32 reals: 1 } } }"),
              HasSubstr("pipeline: 'name' is no UTF-8: '\\xff'"));
}

// Concatenations in concatenations, around a range.
Dataset nested(int depth) {
  Dataset dataset = Dataset::range(0, 1);
  for (int i = 0; i < depth; ++i) dataset = Dataset::concatenate({dataset, Dataset::range(0, 1)});
  return dataset;
}

TEST(PipelineDef, WhatIsTooLargeIsRefusedInBothForms) {
  const PipelineDef deep = PipelineDef::of(nested(24));
  EXPECT_EQ(PipelineDef::from_text(deep.to_text()).difference(deep), "");
  EXPECT_EQ(PipelineDef::from_json(deep.to_json()).difference(deep), "");
  EXPECT_EQ(PipelineDef::from_json(deep.to_json()).dataset().cardinality(), Cardinality::known(25));
  const std::string limits = "a definition has at most 1000 steps, and 24 inputs in inputs";
  EXPECT_THAT(message_of([] { (void)PipelineDef::of(nested(25)); }), HasSubstr(limits));
  std::string text = "steps { range { start: 0 stop: 1 } }";
  for (int i = 0; i < 25; ++i) text = "steps { zip {} inputs { " + text + " } }";
  EXPECT_THAT(refusal("version: 1 " + text), HasSubstr(limits));
  // What would end a parser without a limit of its own.
  std::string open;
  std::string json = R"({"version": 1, "steps": [)";
  for (int i = 0; i < 100'000; ++i) {
    open += "steps{inputs{";
    json += R"({"inputs": [{"steps": [)";
  }
  EXPECT_THAT(refusal("version: 1 " + open), HasSubstr("recursion"));
  EXPECT_NE(message_of([&] { (void)PipelineDef::from_json(json); }), "no error");
  Dataset many = Dataset::range(0, 1);
  std::string steps = "version: 1 steps { range { start: 0 stop: 1 } }";
  for (int i = 0; i < 1000; ++i) {
    many = many.take(1);
    steps += " steps { take { count: 1 } }";
  }
  EXPECT_THAT(message_of([&] { (void)PipelineDef::of(many); }), HasSubstr(limits));
  EXPECT_THAT(refusal(steps), HasSubstr(limits));
}

}  // namespace
}  // namespace millrace::pipeline_def_test
