#include "millrace/ops/sources/from_generator.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/flow/repeat.h"
#include "tests/support/operator_chain.h"

namespace millrace::from_generator_test {
namespace {

using test::Chain;
using test::CountingWaker;
using test::print_element;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Element i of `count`: x = 100 * epoch + i; an error where i is 3.
bool write_number(int64_t count, const Iteration& iteration, int64_t& i, RowWriter& out) {
  if (i == count) return false;
  const int64_t now = i++;
  if (now == 3) throw std::runtime_error("three");
  out.set("x", 100 * iteration.epoch + now);
  return true;
}

const std::vector<FeatureSpec> kX{{.name = "x", .dtype = DType::kInt64, .shape = {}}};

Generator numbers(GeneratorRuns runs) { return {.name = "numbers", .gives = kX, .runs = std::move(runs)}; }

NextElement from(int64_t count, const Iteration& iteration, int64_t first) {
  return [=, i = first](RowWriter& out) mutable { return write_number(count, iteration, i, out); };
}
GeneratorRuns replayed(int64_t count) {
  return GeneratorRuns::replayed([=](const Iteration& iteration) { return from(count, iteration, 0); });
}
GeneratorRuns seekable(int64_t count) {
  return GeneratorRuns::seekable(
      [=](const Iteration& iteration, int64_t first) { return from(count, iteration, first); });
}
GeneratorRuns saved(int64_t count, size_t num_bytes = 4) {
  return GeneratorRuns::saved([=](const Iteration& iteration, std::optional<std::string_view> bytes) {
    auto i = std::make_shared<int64_t>(bytes ? std::stoll(std::string(*bytes)) : 0);
    return SavingRun{.next = [=](RowWriter& out) { return write_number(count, iteration, *i, out); },
                     .save = [=] { return fmt::format("{:0{}}", *i, num_bytes); }};
  });
}

Chain chain(GeneratorRuns runs) { return Chain::source<FromGeneratorOperator>(numbers(std::move(runs))); }

// Blocks of one run, from `place` on.
std::vector<Block> blocks(const Chain& chain, const Cursor& place, BufferPool& pool) {
  CountingWaker waker;
  InlineLanes lanes;
  const auto stage = open_at(chain.opener(0), {pool, waker, {}, lanes}, place);
  std::vector<Block> all;
  while (true) {
    Block block;
    const Poll poll = stage->next(block);
    if (poll == Poll::kEnd) return all;
    if (poll == Poll::kBlock) all.push_back(std::move(block));
  }
}

std::vector<std::string> texts(const std::vector<Block>& blocks) {
  std::vector<std::string> texts;
  for (const Block& block : blocks) {
    for (size_t i = 0; i < block.num_elements(); ++i) texts.push_back(print_element(block, i));
  }
  return texts;
}

TEST(FromGeneratorTest, GivesWhatTheFunctionWritesWithErrorsInTheirPlaces) {
  for (const GeneratorRuns& runs : {replayed(5), seekable(5), saved(5)}) {
    EXPECT_THAT(
        chain(runs).elements(),
        ElementsAre("x=0", "x=1", "x=2", "error: user_function: from_generator 'numbers': three (element 3)", "x=4"));
  }
  EXPECT_THAT(chain(replayed(0)).elements(), ElementsAre());
  EXPECT_EQ(chain(replayed(3)).cardinality(), Cardinality::unknown());
}

TEST(FromGeneratorTest, StartsARunOfItsOwnForEachEpoch) {
  EXPECT_THAT(chain(replayed(2)).then<RepeatOperator>(3).elements(),
              ElementsAre("x=0", "x=1", "x=100", "x=101", "x=200", "x=201"));
}

TEST(FromGeneratorTest, EveryPlaceIsReachedAgainByEveryRule) {
  for (const GeneratorRuns& runs : {replayed(3000), seekable(3000), saved(3000)}) {
    BufferPool pool;
    const std::vector<Block> all = blocks(chain(runs), {}, pool);
    ASSERT_GE(all.size(), 3);
    const std::vector<std::string> expected = texts(all);
    ASSERT_EQ(expected.size(), 3000);
    size_t before = 0;
    for (const Block& block : all) {
      for (const size_t element : {size_t{0}, block.num_elements() / 2, block.num_elements() - 1}) {
        const Cursor place = block.cursor.advanced_by(static_cast<int64_t>(element));
        const std::vector<std::string> rest(expected.begin() + static_cast<std::ptrdiff_t>(before + element),
                                            expected.end());
        EXPECT_EQ(texts(blocks(chain(runs), place, pool)), rest) << before + element;
      }
      before += block.num_elements();
    }
  }
}

TEST(FromGeneratorTest, ASeekableOneIsStartedAtThePlaceAndASavedOneLessThanAStateBehind) {
  BufferPool pool;
  std::vector<int64_t> starts;
  const auto noted = GeneratorRuns::seekable([&starts](const Iteration& iteration, int64_t first) {
    starts.push_back(first);
    return from(5000, iteration, first);
  });
  const std::vector<Block> all = blocks(chain(noted), {}, pool);
  (void)blocks(chain(noted), all.back().cursor, pool);
  EXPECT_THAT(starts, ElementsAre(0, 5000 - static_cast<int64_t>(all.back().num_elements())));

  for (const Block& block : blocks(chain(saved(5000)), {}, pool)) {
    EXPECT_LT(block.cursor.skip, kElementsPerGeneratorState);
    EXPECT_EQ(std::stoll(block.cursor.state->bytes), block.cursor.state->numbers[0]);
  }
}

TEST(FromGeneratorTest, AReplayThatMakesLessThanBeforeIsAnError) {
  BufferPool pool;
  const std::vector<Block> all = blocks(chain(replayed(3000)), {}, pool);
  EXPECT_THAT(texts(blocks(chain(replayed(700)), all.back().cursor, pool)),
              ElementsAre(AllOf(HasSubstr("error: state: from_generator 'numbers'"), HasSubstr("and made only 700"))));
}

TEST(FromGeneratorTest, WhatStartingThrowsIsAnErrorAndTheEnd) {
  const auto start = [](const Iteration&) -> NextElement { throw std::runtime_error("no such file"); };
  EXPECT_THAT(chain(GeneratorRuns::replayed(start)).elements(),
              ElementsAre("error: user_function: from_generator 'numbers': no such file"));
  EXPECT_THAT(chain(GeneratorRuns::replayed([](const Iteration&) { return NextElement(); })).elements(),
              ElementsAre("error: user_function: from_generator 'numbers': its runs have no function"));
}

TEST(FromGeneratorTest, AStateThatIsTooLongIsAnErrorAndTheEndInOnePlace) {
  EXPECT_EQ(chain(saved(40, kMostGeneratorState)).elements().size(), 40);
  EXPECT_THAT(chain(saved(40, kMostGeneratorState + 1)).elements(),
              ElementsAre("error: user_function: from_generator 'numbers': saves 2049 bytes of itself, 2048 are "
                          "allowed (element 0)"));
  // From element 32 on.
  const auto growing = GeneratorRuns::saved([](const Iteration& iteration, std::optional<std::string_view>) {
    auto i = std::make_shared<int64_t>(0);
    return SavingRun{.next = [=](RowWriter& out) { return write_number(100, iteration, *i, out); },
                     .save = [=] { return std::string(static_cast<size_t>(*i) * 70, 'x'); }};
  });
  const std::vector<std::string> elements = chain(growing).elements();
  EXPECT_EQ(elements.size(), 33);
  EXPECT_THAT(elements.back(), HasSubstr("saves 2240 bytes of itself, 2048 are allowed (element 32)"));
}

TEST(FromGeneratorTest, AnElementThatIsNotWholeIsAnError) {
  const auto runs = GeneratorRuns::replayed([](const Iteration&) {
    return [i = 0](RowWriter& out) mutable {
      ++i;
      if (i == 1) return true;
      out.set("x", int64_t{i});
      if (i == 3) out.set("x", int64_t{i});
      return i < 5;
    };
  });
  EXPECT_THAT(chain(runs).elements(), ElementsAre(HasSubstr("feature 'x' was not written (element 0)"), "x=2",
                                                  HasSubstr("feature 'x' was written twice (element 2)"), "x=4",
                                                  HasSubstr("no more elements, and has written one (element 4)")));
}

TEST(FromGeneratorTest, ASlowOneGivesWhatItHas) {
  const auto runs = GeneratorRuns::replayed([](const Iteration& iteration) {
    return [next = from(3, iteration, 0)](RowWriter& out) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      return next(out);
    };
  });
  BufferPool pool;
  EXPECT_EQ(blocks(chain(runs), {}, pool).size(), 3);
}

TEST(FromGeneratorTest, DropsItsRunAtTheEnd) {
  auto runs = std::make_shared<std::weak_ptr<int>>();
  Chain source = chain(GeneratorRuns::replayed([runs](const Iteration& iteration) {
    auto held = std::make_shared<int>();
    *runs = held;
    return [held, next = from(2, iteration, 0)](RowWriter& out) { return next(out); };
  }));
  BufferPool pool;
  CountingWaker waker;
  InlineLanes lanes;
  const auto stage = source.opener(0)({pool, waker, {}, lanes});
  Block block;
  while (stage->next(block) == Poll::kBlock) {
  }
  EXPECT_TRUE(runs->expired());
}

TEST(FromGeneratorTest, RefusesWhatCannotWork) {
  const auto message = [](Generator generator) -> std::string {
    try {
      const FromGeneratorOperator op(std::move(generator));
      return "accepted";
    } catch (const ErrorException& e) {
      return e.error().to_string();
    }
  };
  Generator generator = numbers(replayed(1));
  EXPECT_EQ(message(generator), "accepted");
  generator.name = "";
  EXPECT_EQ(message(generator), "invalid_argument: from_generator: the generator has no name");
  generator = numbers(GeneratorRuns::replayed(nullptr));
  EXPECT_EQ(message(generator), "invalid_argument: from_generator: no function given");
  generator = numbers(replayed(1));
  generator.gives = {};
  EXPECT_EQ(message(generator), "invalid_argument: from_generator: no features given");
  generator.gives = {{.name = "x", .dtype = DType::kInt64, .shape = {kVaries, kRagged}}};
  EXPECT_EQ(message(generator),
            "invalid_argument: from_generator: feature 'x' is ragged, which a function cannot write");
}

TEST(FromGeneratorTest, OnlyTheOneThatIsNotResumableMakesAPipelineUnsavable) {
  EXPECT_EQ(FromGeneratorOperator(numbers(replayed(1))).traits().checkpoint_blocker, "");
  EXPECT_EQ(FromGeneratorOperator(
                numbers(GeneratorRuns::not_resumable([](const Iteration& iteration) { return from(1, iteration, 0); })))
                .traits()
                .checkpoint_blocker,
            "generator 'numbers' is declared not resumable");
}

}  // namespace
}  // namespace millrace::from_generator_test
