#include "tests/examples/quest/quest_table.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace::test {
namespace {

// Words of one letter in numbers that follow from `number`.
std::string letters(int number, int length) {
  std::string text;
  for (int i = 0; i < length; ++i) {
    const auto letter = static_cast<char>('a' + (number * (i % 3 + 1) + i / 4) % 26);
    text += i % 5 == 4 ? ' ' : letter;
  }
  return text + "z";
}

}  // namespace

std::string quest_csv(int questions) {
  std::string csv = "qa_id,question_title,host,question_body,a_long,q_short,both_fit,q_far,answer,a_even\n";
  for (int row = 0; row < 3 * questions; ++row) {
    const int question = row / 3;
    const int answer_length = 3 + row * 7 % 30;
    const double both = std::min(1.0, (question % 2 + row % 3) / 3.0);
    csv += fmt::format("{},{},host,\"{}\n{}\",{:.3f},{:.3f},{:.3f},0.5,{},{:.3f}\n", 100 + row, letters(question, 6),
                       letters(question + 3, 5), letters(question, 4 + question % 20),
                       answer_length > 15 ? 1.0 : 1 / 3.0, question % 20 < 10 ? 1.0 : 0.0, both,
                       letters(row + 1, answer_length), row % 2 == 0 ? 2 / 3.0 : 0.0);
  }
  return csv;
}

}  // namespace millrace::test
