#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/child_process.h"

namespace millrace::test {

/// How many real processes a test kills between the first state and the end: what the environment's MILLRACE_KILLS
/// says, else `usual`, or `in_soak` in a long run.
[[nodiscard]] int num_kills(int usual = 10, int in_soak = 100);

/// Kills a program at random moments of the time that it takes, `kills` times before its end. `check` looks at what is
/// there after it has run once and after each kill, also one that came too late. Fatal failures where it never ends
/// well.
void kill_at_random_moments(const std::vector<std::string>& command, const std::function<void()>& check,
                            int kills = num_kills());

/// Kills a program with file_faults.cc and faults_from_environment.cc at its first call that changes a file, then at
/// the second, and so on, until it ends well. `check` looks at what is there after each. Gives how often it was killed.
int kill_at_each_call(const std::vector<std::string>& command, const std::function<void()>& check);

/// What a program that writes a set of shards has left where it was killed: files of the `whole` set and no others, and
/// all of them where `statistics.json` says so. Below `.incomplete-shards` may be anything.
void expect_part_of_set(const std::string& folder, const std::map<std::string, std::string>& whole);

/// Kills a program that prepares a set of shards in `folder`, half of the times over one that is there, and looks each
/// time at what is left (`expect_part_of_set`); run again it must make the `whole` set.
void kill_preparations(const std::vector<std::string>& command, const std::string& folder,
                       const std::map<std::string, std::string>& whole, int kills);

/// A program that goes on from the last state it saved, and logs a line for each step at least.
struct KilledProgram {
  std::string log;                                                    ///< its path
  std::function<std::vector<std::string>(uint64_t attempt)> command;  ///< of each start, from 0
  /// Steps that are done, by the whole lines of a log.
  std::function<int64_t(const std::string& lines)> steps_in;
};

/// Where kills fell in a run of `length` steps whose first state was saved after `first_state` of them. Kills come when
/// the system lets them, so one that came too early or too late is not counted, and the test goes on:
///
///     for (uint64_t run = 0; !histogram.has_enough(); ++run) {
///       ASSERT_EQ(histogram.kill_until_it_ends(program, run).exit_code, 0);
///       …
///     }
///     EXPECT_GE(histogram.num_that_count(), num_kills());
class KillHistogram {
 public:
  /// `kills`: so many that count are enough.
  KillHistogram(int64_t first_state, int64_t length, int kills = num_kills())
      : first_state_(first_state), length_(length), kills_(kills), tenths_(10) {}
  /// Starts a program, kills it at a random moment and starts it again, until it ends by itself or kills are enough.
  /// Gives how it ended. `run`: of several, which are killed at other moments.
  ChildResult kill_until_it_ends(const KilledProgram& program, uint64_t run);
  /// A process that was killed when it had done `steps`; negative: it had ended before.
  void add(int64_t steps);
  /// Kills after the first state and before the end.
  [[nodiscard]] int num_that_count() const;
  /// Whether enough of them count, or so many more were made that something else must be wrong.
  [[nodiscard]] bool has_enough() const;
  /// One line.
  std::string to_string() const;

 private:
  int64_t first_state_;
  int64_t length_;
  int kills_;
  int before_ = 0;
  int after_ = 0;
  std::vector<int> tenths_;
};

}  // namespace millrace::test
