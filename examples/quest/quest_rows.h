#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "examples/packages/package_list.h"

namespace millrace {

/// What a model looks at to say a target: the question, the answer, or both and what they have in common.
enum class Head { kQuestion, kAnswer, kJoint };

inline constexpr std::array<std::string_view, 3> kHeadNames = {"question", "answer", "joint"};

struct QuestTarget {  ///< a number in [0, 1] that is to be said of each row
  std::string name = {};
  Head head = Head::kQuestion;
  friend bool operator==(const QuestTarget&, const QuestTarget&) = default;
};

/// A question and one of its answers.
struct QuestRow {
  std::string id = {};
  std::string title = {};
  std::string body = {};
  std::string answer = {};
  std::vector<std::string> keys = {};  ///< rows that share one, directly or over others, are in one fold
  std::vector<float> labels = {};      ///< a number for each target; none where they are to be predicted
};

struct QuestRows {
  std::vector<QuestTarget> targets = {};
  std::vector<QuestRow> rows = {};
};

/// By head, a regular expression (RE2) that matches the whole names of its targets. Empty: the head has none.
using HeadPatterns = std::array<std::string, 3>;

/// Those of the competition's columns: 21, 5 and 4, of which the last two do not stand together.
inline const HeadPatterns kCompetitionHeads = {
    "question_(asker_intent_understanding|body_critical|conversational|expect_short_answer|fact_seeking|"
    "has_commonly_accepted_answer|interestingness_(others|self)|multi_intent|not_really_a_question|opinion_seeking|"
    "type_.*|well_written)",
    "answer_(level_of_information|type_.*|well_written)", "answer_(helpful|plausible|relevance|satisfaction)"};

/// The rows of a CSV file (CsvTable): `question_title`, `question_body`, `answer`, perhaps `qa_id`, else a row's id is
/// its number from 0; columns that are no targets are not read. The body is a row's key. `heads`: none for rows to
/// predict, which have no labels and need `qa_id`. Throws as CsvTable; `kParse` with line and column for a text
/// that is blank and a target outside [0, 1]; `kInvalidArgument` for a file without rows and patterns that do not fit.
QuestRows read_csv_rows(const std::string& path, const std::optional<HeadPatterns>& heads);

/// Packages as rows: the synopsis is the title, the first paragraph the body, the others the answer; keys are source
/// package, body and answer, which packages of other sources may have, too. Of each tag it is to be said whether the
/// package has it. Of 30 tags the first 21 are the question's, the next 5 the answer's; of others in proportion.
QuestRows rows_of_packages(const std::vector<Package>& packages, const std::vector<std::string>& tags);

}  // namespace millrace
