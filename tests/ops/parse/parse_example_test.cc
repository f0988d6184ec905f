#include "millrace/ops/parse/parse_example.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/example/writer.h"
#include "tests/support/operator_chain.h"

namespace millrace::parse_example_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A record with ids {n, n + 1}, a weight and a name.
std::string record_of(int64_t n) {
  ExampleWriter writer;
  const std::vector<int64_t> ids{n, n + 1};
  const std::vector<float> weight{static_cast<float>(n) / 2};
  const std::string text = "row " + std::to_string(n);
  const std::vector<std::string_view> name{text};
  writer.add("ids", std::span<const int64_t>(ids));
  writer.add("weight", std::span<const float>(weight));
  writer.add("name", std::span<const std::string_view>(name));
  return writer.finish();
}

std::vector<FeatureDescription> features() {
  return {fixed_len("ids", {2}, DType::kInt64).as(DType::kInt32), fixed_len("weight", {}, DType::kFloat32).named("w"),
          fixed_len("name", {}, DType::kBytes),
          fixed_len("label", {}, DType::kInt64).default_value(std::vector<int64_t>{-1})};
}

// The records in one buffer that the block holds.
Block block_of(BufferPool& pool, const std::vector<std::string>& records) {
  size_t bytes = 0;
  for (const std::string& record : records) bytes += record.size();
  Buffer buffer = pool.allocate(bytes);
  Column column = Column::fixed(pool, DType::kBytes, {}, records.size());
  column.hold(buffer);
  char* at = reinterpret_cast<char*>(buffer->data());
  for (size_t i = 0; i < records.size(); ++i) {
    column.mutable_values<std::string_view>(i)[0] = {at, records[i].size()};
    at = std::copy(records[i].begin(), records[i].end(), at);
  }
  Block block(record_schema(), {column}, records.size());
  block.first_row = 40;
  block.iteration = {.epoch = 1, .path = 2};
  block.epoch = 1;
  return block;
}

Block batched(const Block& rows, size_t batch) {
  const auto schema = std::make_shared<const Schema>(
      std::vector<FeatureSpec>{{.name = "record", .dtype = DType::kBytes, .shape = {static_cast<int64_t>(batch)}}});
  Block batches(schema, {rows.column(0).grouped(batch)}, rows.num_elements() / batch);
  batches.rows_per_element = static_cast<int64_t>(batch);
  batches.first_row = rows.first_row;
  return batches;
}

std::vector<std::string> printed(const Block& block) {
  std::vector<std::string> elements;
  for (size_t i = 0; i < block.num_elements(); ++i) elements.push_back(test::print_element(block, i));
  return elements;
}

TEST(ParseExample, RowsBecomeFeaturesWithCastsNamesAndDefaults) {
  BufferPool pool;
  const ParseExampleOperator parse(record_schema(), features());
  EXPECT_EQ(parse.schema()->to_string(), "ids int32 [2], w float32 [], name bytes [], label int64 []");
  Block parsed;
  {
    const Block rows = block_of(pool, {record_of(1), record_of(8)});
    parsed = parse.apply(rows, pool);
  }  // the views must hold the records
  const Buffer reused = pool.allocate(100);
  std::fill_n(reused->data(), 100, std::byte{'?'});
  EXPECT_THAT(printed(parsed), ElementsAre("ids=[1,2] w=0.5 name=row 1 label=-1", "ids=[8,9] w=4 name=row 8 label=-1"));
  EXPECT_EQ(parsed.first_row, 40);
  EXPECT_EQ(parsed.iteration, (Iteration{.epoch = 1, .path = 2}));
  EXPECT_EQ(parsed.epoch, 1);
}

TEST(ParseExample, BehindABatchItFillsTheBatchAndGivesTheSameValues) {
  BufferPool pool;
  std::vector<std::string> records;
  for (int64_t n = 0; n < 6; ++n) records.push_back(record_of(n));
  const Block batches = batched(block_of(pool, records), 3);
  const ParseExampleOperator parse(batches.schema(), features());
  EXPECT_EQ(parse.schema()->to_string(), "ids int32 [3,2], w float32 [3], name bytes [3], label int64 [3]");
  const Block parsed = parse.apply(batches, pool);
  EXPECT_EQ(parsed.rows_per_element, 3);
  EXPECT_THAT(printed(parsed),
              ElementsAre("ids=[[0,1],[1,2],[2,3]] w=[0,0.5,1] name=[row 0,row 1,row 2] label=[-1,-1,-1]",
                          "ids=[[3,4],[4,5],[5,6]] w=[1.5,2,2.5] name=[row 3,row 4,row 5] label=[-1,-1,-1]"));
}

// One element for each list, which has those records.
Block of_lists(BufferPool& pool, const std::vector<std::vector<std::string>>& lists) {
  const auto schema = std::make_shared<const Schema>(
      std::vector<FeatureSpec>{{.name = "record", .dtype = DType::kBytes, .shape = {kVaries}}});
  BlockBuilder builder(schema, pool);
  for (const std::vector<std::string>& list : lists) {
    std::vector<std::string_view> views;
    for (const std::string& record : list) views.push_back(builder.column(0).store(record));
    builder.column(0).append(std::span<const std::string_view>(views),
                             std::vector<int64_t>{static_cast<int64_t>(list.size())});
    builder.added_elements(1);
  }
  return builder.finish();
}

TEST(ParseExample, ElementsOfUnlikeNumbersOfRecordsAreParsedAsIfEachWereABlock) {
  BufferPool pool;
  const std::string cut = record_of(1).substr(0, 20);
  Block rows = of_lists(pool, {{}, {record_of(1)}, {}, {record_of(2), record_of(3)}, {record_of(4), cut}, {}, {}});
  rows.add_error(5, std::make_shared<const Error>(Error{.code = ErrorCode::kPayloadCrc, .message = "from before"}));
  const auto expect = [&](const std::vector<FeatureDescription>& described, const std::string& none,
                          const std::string& one, const std::string& two) {
    const ParseExampleOperator parse(rows.schema(), described);
    const std::vector<std::string> parsed = printed(parse.apply(rows, pool));
    EXPECT_THAT(parsed, ElementsAre(none, one, none, two, HasSubstr("error: parse: a length of"),
                                    "error: payload_crc: from before", none));
    for (size_t i = 0; i < parsed.size(); ++i) EXPECT_EQ(printed(parse.apply(rows.slice(i, 1), pool))[0], parsed[i]);
    return parse.apply(rows.slice(0, 1), pool);
  };
  const Block fixed = expect(features(), "ids=[] w=[] name=[] label=[]", "ids=[[1,2]] w=[0.5] name=[row 1] label=[-1]",
                             "ids=[[2,3],[3,4]] w=[1,1.5] name=[row 2,row 3] label=[-1,-1]");
  EXPECT_EQ(to_string(fixed.column("ids").shape(0)), "[0,2]");
  const Block varying =
      expect({var_len("weight", DType::kFloat32).named("list"),
              fixed_len_sequence("ids", {2}, DType::kInt64, {.allow_missing = true}).named("padded")},
             "list=[] padded=[]", "list=[[0.5]] padded=[[[1,2]]]", "list=[[1],[1.5]] padded=[[[2,3]],[[3,4]]]");
  EXPECT_EQ(to_string(varying.column("list").shape(0)), "[0,ragged]");
  EXPECT_EQ(to_string(varying.column("padded").shape(0)), "[0,0,2]");
}

TEST(ParseExample, AnErrorAmongTheRecordsOfARowNamesWhereTheRowComesFrom) {
  BufferPool pool;
  Block rows = of_lists(pool, {{record_of(0), "?"}, {record_of(1), record_of(2)}});
  const auto names = std::make_shared<ShardNames>();
  Origins origins(pool, names, 2);
  origins.mutable_data()[0] = {names->add("a.tfrecord"), 70, 7};
  origins.mutable_data()[1] = {names->add("a.tfrecord"), 80, 8};
  rows.set_origins(origins);
  EXPECT_THAT(printed(ParseExampleOperator(rows.schema(), features()).apply(rows, pool))[0], HasSubstr("record 7"));
}

TEST(ParseExample, ABadRecordIsTheErrorOfItsElementAndTheRestIsIntact) {
  BufferPool pool;
  const std::string cut = record_of(1).substr(0, 20);
  Block rows = block_of(pool, {record_of(0), cut, record_of(2), "", record_of(4), record_of(5)});
  rows.add_error(4, std::make_shared<const Error>(Error{.code = ErrorCode::kPayloadCrc, .message = "from before"}));
  const std::vector<std::string> elements =
      printed(ParseExampleOperator(record_schema(), features()).apply(rows, pool));
  ASSERT_EQ(elements.size(), 6u);
  EXPECT_EQ(elements[0], "ids=[0,1] w=0 name=row 0 label=-1");
  EXPECT_THAT(elements[1], HasSubstr("error: parse: a length of"));
  EXPECT_EQ(elements[2], "ids=[2,3] w=1 name=row 2 label=-1");
  EXPECT_EQ(elements[3],
            "error: missing_feature: feature 'ids' is not in the record and has no default (stage parse_example)");
  EXPECT_EQ(elements[4], "error: payload_crc: from before");
  EXPECT_EQ(elements[5], "ids=[5,6] w=2.5 name=row 5 label=-1");

  const Block batches = batched(block_of(pool, {record_of(0), cut, "", record_of(3), record_of(4), record_of(5)}), 3);
  const std::vector<std::string> both =
      printed(ParseExampleOperator(batches.schema(), features()).apply(batches, pool));
  ASSERT_EQ(both.size(), 2u);
  EXPECT_THAT(both[0], HasSubstr("error: parse: a length of"));  // the first bad record's
  EXPECT_EQ(both[1], "ids=[[3,4],[4,5],[5,6]] w=[1.5,2,2.5] name=[row 3,row 4,row 5] label=[-1,-1,-1]");
}

// A record with the lists of all kinds of features, for n = 0, 1, 2, …: n values each.
std::string lists_of(int64_t n) {
  ExampleWriter writer;
  std::vector<int64_t> tags;
  std::vector<float> boxes;
  std::vector<std::string> texts;
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < n; ++i) {
    tags.push_back(10 * n + i);
    boxes.insert(boxes.end(), {static_cast<float>(i), static_cast<float>(-i)});
    texts.push_back(std::string(static_cast<size_t>(i), 'x'));
    indices.push_back(n - i);
  }
  const std::vector<int64_t> lengths{n, 0};
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  if (n > 0) writer.add("tags", std::span<const int64_t>(tags));
  writer.add("boxes", std::span<const float>(boxes));
  writer.add("texts", std::span<const std::string_view>(views));
  writer.add("lengths", std::span<const int64_t>(lengths));
  writer.add("indices", std::span<const int64_t>(indices));
  return writer.finish();
}

std::vector<FeatureDescription> features_of_all_kinds() {
  return {
      var_len("tags", DType::kInt64).as(DType::kInt32),
      fixed_len_sequence("boxes", {2}, DType::kFloat32, {.allow_missing = true}).default_value(std::vector<float>{7}),
      ragged("texts", DType::kBytes, {row_lengths("lengths")}).named("rows"),
      sparse("s", {"indices"}, "tags", DType::kInt64, {100})};
}

TEST(ParseExample, EveryKindOfFeatureBecomesColumns) {
  BufferPool pool;
  const ParseExampleOperator parse(record_schema(), features_of_all_kinds());
  EXPECT_EQ(parse.schema()->to_string(),
            "tags int32 [?], boxes float32 [?,2], rows bytes [?,ragged], s/indices int64 [?,1], s/values int64 [?]");
  const Block parsed = parse.apply(block_of(pool, {lists_of(0), lists_of(2), lists_of(1)}), pool);
  EXPECT_THAT(printed(parsed),
              ElementsAre("tags=[] boxes=[] rows=[[],[]] s/indices=[] s/values=[]",
                          "tags=[20,21] boxes=[[0,0],[1,-1]] rows=[[,x],[]] s/indices=[[1],[2]] s/values=[21,20]",
                          "tags=[10] boxes=[[0,0]] rows=[[],[]] s/indices=[[1]] s/values=[10]"));
}

TEST(ParseExample, BehindABatchSequencesArePaddedAndTheOthersRagged) {
  BufferPool pool;
  const Block batches = batched(block_of(pool, {lists_of(2), lists_of(1), lists_of(0), lists_of(0)}), 2);
  const ParseExampleOperator parse(batches.schema(), features_of_all_kinds());
  EXPECT_EQ(parse.schema()->to_string(),
            "tags int32 [2,ragged], boxes float32 [2,?,2], rows bytes [2,ragged,ragged], s/indices int64 [2,ragged,1], "
            "s/values int64 [2,ragged]");
  EXPECT_THAT(printed(parse.apply(batches, pool)),
              ElementsAre("tags=[[20,21],[10]] boxes=[[[0,0],[1,-1]],[[0,0],[7,7]]] rows=[[[,x],[]],[[],[]]] "
                          "s/indices=[[[1],[2]],[[1]]] s/values=[[21,20],[10]]",
                          "tags=[[],[]] boxes=[[],[]] rows=[[[],[]],[[],[]]] s/indices=[[],[]] s/values=[[],[]]"));
}

TEST(ParseExample, ABadRecordTakesNothingFromItsNeighboursOfVaryingLength) {
  BufferPool pool;
  const std::string cut = lists_of(2).substr(0, 60);
  const Block rows = block_of(pool, {lists_of(1), cut, lists_of(2)});
  const std::vector<std::string> alone =
      printed(ParseExampleOperator(record_schema(), features_of_all_kinds()).apply(rows, pool));
  EXPECT_EQ(alone[0], "tags=[10] boxes=[[0,0]] rows=[[],[]] s/indices=[[1]] s/values=[10]");
  EXPECT_THAT(alone[1], HasSubstr("error: parse: "));
  EXPECT_EQ(alone[2], "tags=[20,21] boxes=[[0,0],[1,-1]] rows=[[,x],[]] s/indices=[[1],[2]] s/values=[21,20]");

  const Block batches = batched(block_of(pool, {lists_of(1), cut, lists_of(2), lists_of(1)}), 2);
  const std::vector<std::string> both =
      printed(ParseExampleOperator(batches.schema(), features_of_all_kinds()).apply(batches, pool));
  EXPECT_THAT(both[0], HasSubstr("error: parse: "));
  EXPECT_THAT(both[1], HasSubstr("tags=[[20,21],[10]] "));
}

TEST(ParseExample, RowPartitionsThatDoNotFitNameBothNumbers) {
  const auto refusal = [](const Partition& partition) {
    BufferPool pool;
    const ParseExampleOperator parse(record_schema(), {ragged("tags", DType::kInt64, {partition}).named("r")});
    return printed(parse.apply(block_of(pool, {lists_of(3)}), pool))[0];
  };
  EXPECT_EQ(refusal(row_lengths("lengths")), "r=[[30,31,32],[]]");
  EXPECT_EQ(refusal(row_limits("lengths")),
            "error: wrong_shape: feature 'tags': the row limits 'lengths' do not cut up all of 3 rows or values "
            "(stage parse_example)");
  EXPECT_THAT(refusal(row_lengths("indices")), HasSubstr("the row lengths 'indices' have the length 2 of 3 rows"));
  EXPECT_THAT(refusal(value_rowids("lengths")), HasSubstr("2 row ids 'lengths' for 3 rows or values"));
  EXPECT_THAT(refusal(uniform_row_length(2)), HasSubstr("3 rows or values do not make rows of 2"));
  EXPECT_THAT(refusal(row_lengths("boxes")), HasSubstr("'boxes' holds float32, expected int64 at byte"));
}

TEST(ParseExample, ABlockOutlivesTheOperatorWhoseDefaultsItHas) {
  BufferPool pool;
  Block parsed;
  {
    const ParseExampleOperator parse(
        record_schema(),
        {fixed_len("missing", {}, DType::kBytes).default_value(std::vector<std::string>{std::string(100, 'd')})});
    parsed = parse.apply(block_of(pool, {""}), pool);
  }
  const std::string reused(100, '?');
  EXPECT_EQ(parsed.column(0).values<std::string_view>(0)[0], std::string(100, 'd'));
}

TEST(ParseExample, ABlockWithoutElementsStaysOne) {
  BufferPool pool;
  const Block parsed = ParseExampleOperator(record_schema(), features()).apply(block_of(pool, {}), pool);
  EXPECT_EQ(parsed.num_elements(), 0u);
  EXPECT_EQ(parsed.columns().size(), 4u);
}

TEST(ParseExample, RefusesInputsThatAreNoRecordsAndNamesThatClash) {
  const auto numbers =
      std::make_shared<const Schema>(std::vector<FeatureSpec>{{.name = "x", .dtype = DType::kInt64, .shape = {}}});
  EXPECT_THROW(ParseExampleOperator(numbers, features()), ErrorException);
  EXPECT_THROW(ParseExampleOperator(record_schema(), {}), ErrorException);
  EXPECT_THROW(ParseExampleOperator(record_schema(),
                                    {fixed_len("a", {}, DType::kInt64), fixed_len("b", {}, DType::kInt64).named("a")}),
               ErrorException);
}

}  // namespace
}  // namespace millrace::parse_example_test
