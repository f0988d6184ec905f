#pragma once

#include <string>

#include "examples/quest/quest_rows.h"

namespace millrace::test {

/// The heads of the five targets of `quest_csv`, whose columns do not stand together.
inline const HeadPatterns kTableHeads = {"q_.*", "a_.*", "both_.*"};

/// A CSV as the competition has it, of `questions` questions with three answers each, in lower-case letters: qa_id,
/// texts, a column that is none, and the targets a_long, q_short, both_fit, q_far, a_even, in steps of a third; q_far
/// is always 0.5. What a row says follows from its letters.
std::string quest_csv(int questions);

}  // namespace millrace::test
