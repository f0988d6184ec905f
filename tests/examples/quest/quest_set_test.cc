#include "examples/quest/quest_set.h"

#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/pipeline/dataset.h"
#include "tests/examples/mlm/preparation_text.h"
#include "tests/examples/quest/quest_table.h"
#include "tests/support/temporary_folder.h"

namespace millrace::quest_set_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class QuestShards : public testing::Test {
 protected:
  QuestShards() {
    test::write_file(tokenizer(), test::letter_tokenizer_json());
    test::write_file(folder_.path("x.csv"), test::quest_csv(11));
    rows_ = read_csv_rows(folder_.path("x.csv"), test::kTableHeads);
  }
  std::string tokenizer() const { return folder_.path("tokenizer.json"); }
  std::string out(const std::string& name = "out") const { return folder_.path(name); }
  std::optional<QuestStatistics> prepare(const std::string& to, const QuestSetOptions& options = {}) const {
    return write_quest_set(rows_, encoder(), to, options);
  }
  SequenceEncoder encoder() const { return {tokenizer(), {.question = 44, .answer = 30, .title = 10}}; }

  const test::TemporaryFolder folder_;
  QuestRows rows_;
};

TEST_F(QuestShards, HoldEachRowInOneValidationAndAllOtherTrainings) {
  const QuestStatistics statistics = prepare(out()).value();
  EXPECT_EQ(statistics.rows, 33);
  EXPECT_EQ(statistics.groups, 11);
  EXPECT_EQ(statistics.largest_group, 3);
  EXPECT_THAT(statistics.fold_rows, ElementsAre(9, 6, 6, 6, 6));         // 11 groups of 3
  std::map<std::vector<int64_t>, std::multiset<std::string>> shards_of;  // by the question's and the answer's ids
  for (int fold = 0; fold < 5; ++fold) {
    for (const bool train : {true, false}) {
      const std::string name = statistics.shard_name(train, fold);
      EXPECT_EQ(name, fmt::format("{}-{}-{}-44-30.tfrec", train ? "train" : "valid", fold,
                                  train ? 33 - statistics.fold_rows[static_cast<size_t>(fold)]
                                        : statistics.fold_rows[static_cast<size_t>(fold)]));
      Pipeline pipeline = Dataset::tfrecord(Shards::files({out() + "/" + name}))
                              .parse_example({fixed_len("input_ids_question", {44}, DType::kInt64),
                                              fixed_len("input_mask_question", {44}, DType::kInt64),
                                              fixed_len("input_ids_answer", {30}, DType::kInt64),
                                              fixed_len("input_mask_answer", {30}, DType::kInt64),
                                              fixed_len("labels", {5}, DType::kFloat32)})
                              .start({.threads = 1});
      while (const std::optional<Batch> row = pipeline.next()) {
        const auto question = row->values<int64_t>("input_ids_question");
        const auto answer = row->values<int64_t>("input_ids_answer");
        std::vector<int64_t> key(question.begin(), question.end());
        key.insert(key.end(), answer.begin(), answer.end());
        shards_of[key].insert(train ? "train" : fmt::format("valid {}", fold));
      }
    }
  }
  EXPECT_EQ(shards_of.size(), 33U);
  for (const auto& [key, shards] : shards_of) {
    EXPECT_EQ(shards.size(), 5U);
    EXPECT_EQ(shards.count("train"), 4U);
  }
}

TEST_F(QuestShards, HoldPaddedIdsMasksAndLabelsInTheOrderOfTheRows) {
  const QuestStatistics statistics = prepare(out()).value();
  std::string folds = "qa_id,fold\n";
  size_t row = 0;
  std::vector<Pipeline> pipelines;
  for (int fold = 0; fold < 5; ++fold) {
    pipelines.push_back(Dataset::tfrecord(Shards::files({out() + "/" + statistics.shard_name(false, fold)}))
                            .parse_example({fixed_len("input_ids_question", {44}, DType::kInt64),
                                            fixed_len("input_mask_question", {44}, DType::kInt64),
                                            fixed_len("labels", {5}, DType::kFloat32)})
                            .start({.threads = 1}));
  }
  const std::string listed = test::read_file(out() + "/folds.csv");
  int64_t cut = 0;
  int64_t tokens = 0;
  for (; row < rows_.rows.size(); ++row) {
    const size_t line = listed.find(fmt::format("\n{},", rows_.rows[row].id));
    ASSERT_NE(line, std::string::npos);
    const int fold = listed[listed.find(',', line) + 1] - '0';
    folds += fmt::format("{},{}\n", rows_.rows[row].id, fold);
    const std::optional<Batch> record = pipelines.at(static_cast<size_t>(fold)).next();
    ASSERT_TRUE(record);
    const Sequences expected = encoder().encode(rows_.rows[row]);
    cut += expected.cut ? 1 : 0;
    tokens += std::ssize(expected.question);
    for (size_t i = 0; i < 44; ++i) {
      const bool there = i < expected.question.size();
      EXPECT_EQ(record->values<int64_t>("input_ids_question")[i], there ? expected.question[i] : 3);
      EXPECT_EQ(record->values<int64_t>("input_mask_question")[i], there ? 1 : 0);
    }
    const auto labels = record->values<float>("labels");
    EXPECT_THAT(std::vector<float>(labels.begin(), labels.end()), testing::ElementsAreArray(rows_.rows[row].labels));
  }
  EXPECT_EQ(listed, folds);
  EXPECT_EQ(statistics.cut_rows, cut);
  EXPECT_GT(cut, 0);
  EXPECT_LT(cut, 33);
  EXPECT_EQ(statistics.question_tokens, tokens);
}

TEST_F(QuestShards, AreTheSameForAnyNumberOfThreads) {
  (void)prepare(out("one"), {.threads = 1});
  const auto expected = test::files_below(out("one"));
  EXPECT_EQ(expected.size(), 12U);
  for (const int threads : {2, 8}) {
    (void)prepare(out(fmt::format("{}", threads)), {.threads = threads});
    EXPECT_TRUE(test::files_below(out(fmt::format("{}", threads))) == expected);
  }
}

TEST_F(QuestShards, HaveStatisticsThatAreReadBackAndKnowWhatIsMissing) {
  const QuestStatistics written = prepare(out(), {.folds = 3}).value();
  const QuestStatistics read = read_quest_set(out());
  read.format.check_same(written.format, "x", "y");
  EXPECT_EQ(to_json(read), to_json(written));
  EXPECT_EQ(read.format.vocabulary_size, 32);
  EXPECT_EQ(read.format.pad_token, 3);
  EXPECT_EQ(read.format.folds, 3);
  EXPECT_THAT(read.format.targets,
              ElementsAre(QuestTarget{"a_long", Head::kAnswer}, QuestTarget{"q_short", Head::kQuestion},
                          QuestTarget{"both_fit", Head::kJoint}, QuestTarget{"q_far", Head::kQuestion},
                          QuestTarget{"a_even", Head::kAnswer}));
  EXPECT_THAT(read.format.by_head().question, ElementsAre(1, 3));
  EXPECT_THAT(read.format.by_head().joint, ElementsAre(2));
  read.format.check_tokenizer(tokenizer(), "x");
  test::write_file(folder_.path("other.json"), test::letter_tokenizer_json() + " ");
  EXPECT_THAT([&] { read.format.check_tokenizer(folder_.path("other.json"), "the set"); },
              ThrowsMessage<ErrorException>(
                  HasSubstr("other.json is another tokenizer than that of 32 tokens which the set was made with")));
  std::filesystem::remove(out() + "/" + read.shard_name(false, 1));
  EXPECT_THAT([&] { (void)read_quest_set(out()); },
              ThrowsMessage<ErrorException>(AllOf(HasSubstr("fold 1 is not whole"), HasSubstr("valid-1-"),
                                                  HasSubstr("run prepare_quest again"))));
  auto json = nlohmann::json::parse(to_json(written));
  json["fold_rows"] = std::vector<int64_t>();
  test::write_file(out() + "/statistics.json", json.dump());
  EXPECT_THAT(
      [&] { (void)read_quest_set(out()); },
      ThrowsMessage<ErrorException>(AllOf(HasSubstr("3 folds, of which 0 have rows"), HasSubstr("statistics"))));
  test::write_file(out() + "/statistics.json", "{\"rows\": 3}");
  EXPECT_THAT([&] { (void)read_quest_set(out()); }, ThrowsMessage<ErrorException>(HasSubstr("statistics.json")));
}

TEST_F(QuestShards, KnowOfWhichSplitTheyAre) {
  const QuestFormat format = prepare(out()).value().format;
  const auto refusal = [&](const QuestStatistics& other) {
    try {
      other.format.check_same(format, "these", "those");
    } catch (const ErrorException& e) {
      return e.error().message;
    }
    return std::string("the same");
  };
  EXPECT_EQ(refusal(prepare(out("unpadded"), {.padded = false}).value()), "the same");
  EXPECT_EQ(refusal(prepare(out("four"), {.folds = 4}).value()),
            "these has another split of rows into folds than those; both must be of one prepare_quest");
  rows_.rows[3].labels[0] += 0.25F;
  EXPECT_EQ(refusal(prepare(out("labels")).value()),
            "these has another split of rows into folds than those; both must be of one prepare_quest");
  rows_.rows[3].labels[0] -= 0.25F;
  EXPECT_EQ(refusal(prepare(out("again")).value()), "the same");
  std::swap(rows_.rows[0], rows_.rows[30]);
  EXPECT_EQ(refusal(prepare(out("order")).value()),
            "these has another split of rows into folds than those; both must be of one prepare_quest");
  rows_.targets[0].name = "x";
  EXPECT_EQ(refusal(prepare(out("targets")).value()),
            "these has other targets than those; both must be of one prepare_quest");
}

TEST_F(QuestShards, StayAsTheyWereWhereWhatIsWrittenBesideThemFails) {
  (void)prepare(out());
  const auto before = test::files_below(out());
  const std::vector<ShardSetFile> elsewhere = {{.name = out("first"), .text = "a"},
                                               {.name = out("none/b"), .text = "b"}};
  EXPECT_THAT([&] { (void)prepare(out(), {.folds = 2, .elsewhere = elsewhere}); },
              ThrowsMessage<ErrorException>(HasSubstr("none/b")));
  EXPECT_FALSE(std::filesystem::exists(out("first")));
  EXPECT_TRUE(test::files_below(out()) == before);
}

TEST_F(QuestShards, ReplaceThoseOfAnEarlierSetAndRefuseWhatTheyCannotBeMadeOf) {
  (void)prepare(out());
  (void)prepare(out(), {.folds = 2});
  EXPECT_EQ(test::files_below(out()).size(), 6U);
  const auto before = test::files_below(out());
  EXPECT_THAT([&] { (void)prepare(out(), {.folds = 12}); },
              ThrowsMessage<ErrorException>(HasSubstr("33 rows in 11 groups cannot be cut into 12 folds")));
  EXPECT_EQ(prepare(out(), {.stop_requested = [] { return true; }}), std::nullopt);
  EXPECT_TRUE(test::files_below(out()) == before);
}

TEST_F(QuestShards, HoldRowsAsLongAsTheyAreWhereTheyAreNotPadded) {
  const QuestStatistics statistics = prepare(out(), {.padded = false}).value();
  EXPECT_FALSE(read_quest_set(out()).padded);
  Pipeline pipeline =
      Dataset::tfrecord(Shards::files({out() + "/" + statistics.shard_name(false, 0)}))
          .parse_example({var_len("input_ids_answer", DType::kInt64), var_len("input_mask_answer", DType::kInt64)})
          .start({.threads = 1});
  std::set<int64_t> lengths;
  while (const std::optional<Batch> row = pipeline.next()) {
    lengths.insert(row->shape("input_ids_answer")[0]);
    EXPECT_THAT(row->values<int64_t>("input_mask_answer"), testing::Each(1));
    EXPECT_EQ(row->shape("input_ids_answer"), row->shape("input_mask_answer"));
  }
  EXPECT_GT(lengths.size(), 2U);
}

}  // namespace
}  // namespace millrace::quest_set_test
