#include "examples/quest/quest_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "tests/examples/quest/quest_table.h"
#include "tests/support/temporary_folder.h"

namespace millrace::quest_rows_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CsvRows : public testing::Test {
 protected:
  QuestRows read(const std::string& bytes, const std::optional<HeadPatterns>& heads = test::kTableHeads) const {
    test::write_file(folder_.path("x.csv"), bytes);
    return read_csv_rows(folder_.path("x.csv"), heads);
  }
  std::string refusal(const std::string& bytes, const std::optional<HeadPatterns>& heads = test::kTableHeads) const {
    try {
      (void)read(bytes, heads);
    } catch (const ErrorException& e) {
      return e.what();
    }
    return "nothing thrown";
  }
  const test::TemporaryFolder folder_;
};

constexpr const char* kHeader = "qa_id,question_title,question_body,answer,q_a,a_b,both_c\n";

TEST_F(CsvRows, HaveTextsWithQuotesAndNewlinesAndTheTargetsOfEachHead) {
  const QuestRows rows = read(std::string("\xEF\xBB\xBF") +
                                  "both_c,answer,question_body,host,question_title,qa_id,q_a\r\n"
                                  "0.5,\"he said \"\"no\"\",\nthen yes\",body,,title,7,1\r\n"
                                  "0,\"a, b\",body,x,other title,8,0.3333333\r\n",
                              HeadPatterns{"q_.*", "", "both_.*"});
  EXPECT_THAT(rows.targets, ElementsAre(QuestTarget{"both_c", Head::kJoint}, QuestTarget{"q_a", Head::kQuestion}));
  ASSERT_EQ(rows.rows.size(), 2U);
  EXPECT_EQ(rows.rows[0].answer, "he said \"no\",\nthen yes");
  EXPECT_EQ(rows.rows[0].id, "7");
  EXPECT_EQ(rows.rows[0].title, "title");
  EXPECT_THAT(rows.rows[0].labels, ElementsAre(0.5F, 1.0F));
  EXPECT_EQ(rows.rows[1].answer, "a, b");
  EXPECT_THAT(rows.rows[0].keys, ElementsAre("body"));
}

TEST_F(CsvRows, AreNumberedWhereTheyHaveNoIdAndNeedOneForPredictions) {
  const std::string csv = "question_title,question_body,answer,q_a\nt,b,a,0\nt,b,a,1\n";
  EXPECT_EQ(read(csv, HeadPatterns{"q_.*", "", ""}).rows[1].id, "1");
  EXPECT_THAT(refusal(csv, std::nullopt), HasSubstr("no column 'qa_id'"));
  const QuestRows rows = read("qa_id,question_title,question_body,answer\nx,t,b,a\n", std::nullopt);
  EXPECT_THAT(rows.targets, IsEmpty());
  EXPECT_THAT(rows.rows[0].labels, IsEmpty());
}

TEST_F(CsvRows, OfTheCompetitionHave21And5And4TargetsThatDoNotStandTogether) {
  std::string header =
      "qa_id,question_title,question_body,question_user_name,question_user_page,answer,answer_user_name,url";
  for (const char* name : {"question_asker_intent_understanding",
                           "question_body_critical",
                           "question_conversational",
                           "question_expect_short_answer",
                           "question_fact_seeking",
                           "question_has_commonly_accepted_answer",
                           "question_interestingness_others",
                           "question_interestingness_self",
                           "question_multi_intent",
                           "question_not_really_a_question",
                           "question_opinion_seeking",
                           "question_type_choice",
                           "question_type_compare",
                           "question_type_consequence",
                           "question_type_definition",
                           "question_type_entity",
                           "question_type_instructions",
                           "question_type_procedure",
                           "question_type_reason_explanation",
                           "question_type_spelling",
                           "question_well_written",
                           "answer_helpful",
                           "answer_level_of_information",
                           "answer_plausible",
                           "answer_relevance",
                           "answer_satisfaction",
                           "answer_type_instructions",
                           "answer_type_procedure",
                           "answer_type_reason_explanation",
                           "answer_well_written"}) {
    header += std::string(",") + name;
  }
  std::string row = "1,t,b,u,p,a,u,url";
  for (int i = 0; i < 30; ++i) row += ",0";
  const QuestRows rows = read(header + "\n" + row + "\n", kCompetitionHeads);
  ASSERT_EQ(rows.targets.size(), 30U);
  std::string heads;
  for (const QuestTarget& target : rows.targets) heads += "qaj"[static_cast<size_t>(target.head)];
  EXPECT_EQ(heads, std::string(21, 'q') + "jajjjaaaa");
}

TEST_F(CsvRows, RefuseWhatIsWrongInALineWithItsPlace) {
  const std::string header = kHeader;
  EXPECT_THAT(refusal(header + "1,t,b,a,0,0,0\n2,t,b,a,0,1.5,0\n"),
              AllOf(HasSubstr("line 3"), HasSubstr("'a_b'"), HasSubstr("1.5 is outside [0, 1]"), HasSubstr("x.csv")));
  EXPECT_THAT(refusal(header + "1,\"t\nt\",b,a,0,0,0\n2,t,b,a,-0.1,0,0\n"),
              AllOf(HasSubstr("line 4"), HasSubstr("'q_a'"), HasSubstr("outside")));
  EXPECT_THAT(refusal(header + "1,t,b,a,0,0,much\n"),
              AllOf(HasSubstr("line 2"), HasSubstr("'both_c'"), HasSubstr("'much' is no number")));
  EXPECT_THAT(refusal(header + "1,t,b,a,0,,0\n"), AllOf(HasSubstr("'a_b'"), HasSubstr("'' is no number")));
  EXPECT_THAT(refusal(header + "1,t,b,a,nan,0,0\n"), AllOf(HasSubstr("'q_a'"), HasSubstr("outside")));
  EXPECT_THAT(refusal(header + "1,t,\" \n\",a,0,0,0\n"),
              AllOf(HasSubstr("line 2"), HasSubstr("'question_body'"), HasSubstr("an empty text")));
  EXPECT_THAT(refusal(header + "1,t,b,a\xff,0,0,0\n"), AllOf(HasSubstr("'answer'"), HasSubstr("not UTF-8")));
  EXPECT_THAT(refusal(header + "1,t,b,a,0,0\n"), AllOf(HasSubstr("line 2"), HasSubstr("6 fields")));
  EXPECT_THAT(refusal(header + "1,t,b,\"a,0,0,0\n"), AllOf(HasSubstr("line 2"), HasSubstr("not closed")));
}

TEST_F(CsvRows, RefuseAFileThatIsAnother) {
  const std::string header = kHeader;
  EXPECT_THAT(refusal(""), HasSubstr("empty"));
  EXPECT_THAT(refusal(header), HasSubstr("no rows after the header"));
  EXPECT_THAT(refusal("qa_id,question_title,answer,q_a,a_b,both_c\n"), HasSubstr("no column 'question_body'"));
  EXPECT_THAT(refusal("q_a,q_a\n"), HasSubstr("two columns 'q_a'"));
  EXPECT_THAT(refusal(header, HeadPatterns{"q_.*", "x_.*", ""}),
              HasSubstr("--answer-targets 'x_.*' matches no column"));
  EXPECT_THAT(refusal(header, HeadPatterns{"(", "", ""}), HasSubstr("is no regular expression"));
  EXPECT_THAT(refusal(header, HeadPatterns{"q_a", "q_a", ""}), HasSubstr("column 'q_a' is a target of two heads"));
  EXPECT_THAT(refusal(header, HeadPatterns{"", "", ""}), HasSubstr("no head has a target"));
}

TEST(PackagesAsRows, HaveTheSynopsisFirstAndTheOtherParagraphsForAnAnswer) {
  const std::vector<Package> packages = {{.name = "kettle",
                                          .source = "kettles",
                                          .section = "misc",
                                          .tags = {"a", "c"},
                                          .synopsis = "boils water",
                                          .paragraphs = {"A kettle.", "Quick.", "Loud."}}};
  const QuestRows rows = rows_of_packages(packages, {"a", "b", "c", "d", "e", "f"});
  ASSERT_EQ(rows.rows.size(), 1U);
  EXPECT_EQ(rows.rows[0].id, "kettle");
  EXPECT_EQ(rows.rows[0].title, "boils water");
  EXPECT_EQ(rows.rows[0].body, "A kettle.");
  EXPECT_EQ(rows.rows[0].answer, "Quick. Loud.");
  EXPECT_THAT(rows.rows[0].keys, ElementsAre("kettles", "A kettle.", "Quick. Loud."));
  EXPECT_THAT(rows.rows[0].labels, ElementsAre(1, 0, 1, 0, 0, 0));
  std::vector<Head> heads;
  for (const QuestTarget& target : rows.targets) heads.push_back(target.head);
  EXPECT_THAT(heads, ElementsAre(Head::kQuestion, Head::kQuestion, Head::kQuestion, Head::kQuestion, Head::kQuestion,
                                 Head::kAnswer));
  EXPECT_EQ(rows.targets[2].name, "c");
  std::vector<std::string> tags;
  for (int i = 0; i < 30; ++i) tags.push_back(std::string(1, 'a') + std::to_string(i));
  const std::vector<QuestTarget> thirty = rows_of_packages({}, tags).targets;
  for (size_t i = 0; i < 30; ++i) {
    EXPECT_EQ(thirty[i].head, i < 21 ? Head::kQuestion : i < 26 ? Head::kAnswer : Head::kJoint) << i;
  }
}

}  // namespace
}  // namespace millrace::quest_rows_test
