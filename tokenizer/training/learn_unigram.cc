// The program that learns pieces with sentencepiece: a process of its own, since libsentencepiece has a protobuf of its
// own inside (docs/decisions/sentencepiece_in_its_own_process.md). It is a part of the library, see CMakeLists.txt.
//
// Standard input, in fields (message_fields.h): the process that asks, how many cores it may use or 0 for all, the
// arguments of sentencepiece as names and values, an empty field, and the rows to learn from. Standard output:
// `learned`, each piece with its score and an empty field, or `refused` and sentencepiece's message, or
// `out_of_memory`.
#include <array>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>

#include <sched.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "millrace/tokenizer/training/message_fields.h"

namespace {

using millrace::append_field;
using millrace::take_field;

class Rows final : public sentencepiece::SentenceIterator {
 public:
  explicit Rows(std::string_view fields) : left_(fields) { Next(); }
  bool done() const override { return done_; }
  void Next() override {
    const auto row = take_field(left_);
    done_ = !row.has_value();
    row_ = row.value_or("");
  }
  const std::string& value() const override { return row_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::string_view left_;
  std::string row_;
  bool done_ = false;
};

std::string read_all() {
  std::string all;
  std::array<char, 1 << 16> bytes;
  while (const ssize_t size = ::read(STDIN_FILENO, bytes.data(), bytes.size())) {
    if (size < 0) std::exit(2);
    all.append(bytes.data(), static_cast<size_t>(size));
  }
  return all;
}

void write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (size < 0) std::exit(2);
    bytes.remove_prefix(static_cast<size_t>(size));
  }
}

// A field that is a number: it ends with a NUL.
int take_number(std::string_view& message) { return std::atoi(take_field(message).value_or("0").data()); }

// Nobody would read what it learns for a process that has ended.
void end_with(pid_t asking) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const pid_t parent = ::getppid();  // 0: in another process namespace
  if (parent != 0 && parent != asking) std::exit(2);
}

void use_cores(int num_cores) {
  cpu_set_t all;
  if (num_cores == 0 || ::sched_getaffinity(0, sizeof(all), &all) != 0) return;
  cpu_set_t some;
  CPU_ZERO(&some);
  for (int core = 0; core < CPU_SETSIZE && num_cores > 0; ++core) {
    if (!CPU_ISSET(core, &all)) continue;
    CPU_SET(core, &some);
    --num_cores;
  }
  ::sched_setaffinity(0, sizeof(some), &some);
}

std::string answer(std::string_view input) {
  std::string result;
  const auto refused = [&result](std::string_view why) {
    append_field(result, "refused");
    append_field(result, why);
    return result;
  };
  end_with(take_number(input));
  use_cores(take_number(input));
  std::unordered_map<std::string, std::string> arguments;
  for (auto name = take_field(input); name && !name->empty(); name = take_field(input)) {
    arguments.emplace(*name, take_field(input).value_or(""));
  }
  Rows rows(input);
  std::string model;
  if (const auto status = sentencepiece::SentencePieceTrainer::Train(arguments, &rows, &model); !status.ok()) {
    return refused(status.message());
  }
  sentencepiece::SentencePieceProcessor pieces;
  if (const auto status = pieces.LoadFromSerializedProto(model); !status.ok()) return refused(status.message());
  append_field(result, "learned");
  for (int id = 0; id < pieces.GetPieceSize(); ++id) {
    append_field(result, pieces.IdToPiece(id));
    std::array<char, 32> score;  // the shortest form that reads back as the same float
    const auto end = std::to_chars(score.data(), score.data() + score.size(), pieces.GetScore(id)).ptr;
    append_field(result, {score.data(), static_cast<size_t>(end - score.data())});
  }
  append_field(result, "");
  return result;
}

}  // namespace

int main() {
  ::closefrom(STDERR_FILENO + 1);  // what the caller's program has open and did not mean for others
  try {
    write_all(answer(read_all()));
  } catch (const std::bad_alloc&) {
    write_all({"out_of_memory", sizeof("out_of_memory")});
  }
}
