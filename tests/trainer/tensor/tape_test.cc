#include "millrace/trainer/tensor/tape.h"

#include <cmath>
#include <set>
#include <vector>

#include <gmock/gmock.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/tensor/dropout.h"
#include "millrace/trainer/tensor/feed_forward.h"
#include "millrace/trainer/tensor/gelu.h"
#include "millrace/trainer/tensor/layer_norm.h"
#include "millrace/trainer/tensor/linear.h"

namespace millrace::tape_test {
namespace {

using testing::Each;
using testing::ElementsAre;

class Announced final : public GradientListener {
 public:
  explicit Announced(const float* gradients) : gradients_(gradients) {}
  void gradient_final(int id) override {
    ids.push_back(id);
    first_values.push_back(gradients_ == nullptr ? 0 : gradients_[16 * (2 - id)]);
  }
  std::vector<int> ids;
  std::vector<float> first_values;  // of each parameter's gradient, when it was announced

 private:
  const float* gradients_;
};

// Three parameters of one value each; they lie in reverse order, 16 floats apart.
struct Three {
  Three() {
    for (const char* name : {"a", "b", "c"}) layout.add(name, {1, 1});
    layout.finish();
    weights.resize(static_cast<size_t>(layout.size()));
    gradients.resize(weights.size(), NAN);
    weights[32] = 2;
    weights[16] = 3;
    weights[0] = 5;
    zero_layout.add("zero", {1});
    zero_layout.finish();
  }
  ParameterLayout layout;
  ParameterLayout zero_layout;
  std::vector<float> weights;
  std::vector<float> gradients;
  Arena arena;
  Tape<float> tape{arena};
  float zero = 0;
  Tensor<float> no_bias{.values = &zero, .shape = {1}};
};

TEST(Tape, AParameterIsFinalAfterItsLastUseAndItsUsesAreAdded) {
  Three t;
  Announced announced(t.gradients.data());
  t.tape.begin(t.layout, t.weights.data(), {.values = t.gradients.data(), .listener = &announced});
  // y = ((a * b) * a), c is not used: dy/da = 2ab, dy/db = a^2.
  const Tensor<float> ab = linear(t.tape, t.tape.parameter(0), t.tape.parameter(1), t.no_bias);
  const Tensor<float> y = linear(t.tape, ab, t.tape.parameter(0), t.no_bias);
  EXPECT_EQ(*y.values, 12);
  t.tape.backward(y);
  EXPECT_THAT(announced.ids, ElementsAre(0, 1));  // not the unused one
  EXPECT_THAT(announced.first_values, ElementsAre(12, 4));
}

TEST(Tape, WhatNothingDependsOnGetsZeros) {
  Three t;
  Announced announced(t.gradients.data());
  t.tape.begin(t.layout, t.weights.data(), {.values = t.gradients.data(), .listener = &announced});
  (void)linear(t.tape, t.tape.parameter(0), t.tape.parameter(1), t.no_bias);  // leads nowhere
  const Tensor<float> y = linear(t.tape, t.tape.parameter(2), t.tape.parameter(2), t.no_bias);
  t.tape.backward(y);
  EXPECT_THAT(announced.ids, ElementsAre(2, 0, 1));
  EXPECT_THAT(announced.first_values, ElementsAre(10, 0, 0));
}

TEST(Tape, AWalkForNoParametersComputesNothing) {
  Three t;
  Announced announced(t.gradients.data());
  t.tape.begin(t.layout, t.weights.data(), {.values = t.gradients.data(), .listener = &announced});
  const Tensor<float> y = linear(t.tape, t.tape.parameter(0), t.tape.parameter(1), t.no_bias);
  t.tape.backward(y, {}, std::vector<int>{});
  EXPECT_THAT(announced.ids, testing::IsEmpty());
  for (const float gradient : t.gradients) EXPECT_TRUE(std::isnan(gradient));
  t.tape.backward(y);  // all, none of which has been asked for
  EXPECT_THAT(announced.ids, testing::UnorderedElementsAre(0, 1));
  EXPECT_EQ(t.gradients[32], 3);
}

TEST(Tape, AParameterMayBeTheOutput) {
  Three t;
  Announced announced(t.gradients.data());
  t.tape.begin(t.layout, t.weights.data(), {.values = t.gradients.data(), .listener = &announced});
  t.tape.backward(t.tape.parameter(1));
  EXPECT_THAT(announced.ids, ElementsAre(1));
  EXPECT_THAT(announced.first_values, ElementsAre(1));
}

TEST(Tape, WithoutGradientsNothingIsRecorded) {
  Three t;
  t.tape.begin(t.layout, t.weights.data());
  const Tensor<float> y = linear(t.tape, t.tape.parameter(0), t.tape.parameter(1), t.no_bias);
  EXPECT_EQ(*y.values, 6);
  EXPECT_FALSE(y.needs_gradient());
  EXPECT_THROW(t.tape.backward(y), ErrorException);
}

TEST(Tape, NothingIsRecordedWhileANoGradLives) {
  Three t;
  Announced announced(t.gradients.data());
  t.tape.begin(t.layout, t.weights.data(), {.values = t.gradients.data(), .listener = &announced});
  const Tensor<float> recorded = linear(t.tape, t.tape.parameter(0), t.tape.parameter(1), t.no_bias);
  const Tensor<float> frozen = [&] {
    const Tape<float>::NoGrad no_grad(t.tape);
    { const Tape<float>::NoGrad inner(t.tape); }
    EXPECT_FALSE(t.tape.recording());
    t.tape.discard(recorded);  // it is needed on the way back
    EXPECT_NE(t.tape.keep<float>(1), recorded.values);
    return linear(t.tape, t.tape.parameter(0), t.tape.parameter(1), t.no_bias);
  }();
  EXPECT_EQ(*frozen.values, 6);
  EXPECT_FALSE(frozen.needs_gradient());
  // y = ab * b, where ab is a constant: dy/db = ab.
  t.tape.backward(linear(t.tape, frozen, t.tape.parameter(1), t.no_bias));
  EXPECT_THAT(announced.ids, ElementsAre(0, 1));
  EXPECT_THAT(announced.first_values, ElementsAre(0, 6));
}

TEST(Tape, BackwardNeedsAGradientForEachValueOfItsOutput) {
  ParameterLayout layout;
  layout.add("x", {2, 3});
  layout.finish();
  std::vector<float> weights(static_cast<size_t>(layout.size()), 1);
  std::vector<float> gradients(weights.size());
  Arena arena;
  Tape<float> tape(arena);
  tape.begin(layout, weights.data(), {.values = gradients.data()});
  const Tensor<float> y = gelu(tape, tape.parameter(0));
  const std::vector<float> five(5);
  EXPECT_THROW(tape.backward(y), ErrorException);
  EXPECT_THROW(tape.backward(y, five), ErrorException);
}

TEST(Tape, OperatorsRefuseSizesThatDoNotFit) {
  ParameterLayout layout;
  layout.add("x", {2, 3});
  layout.add("w", {4, 5});
  layout.add("b", {4});
  layout.finish();
  std::vector<float> weights(static_cast<size_t>(layout.size()), 1);
  Arena arena;
  Tape<float> tape(arena);
  tape.begin(layout, weights.data());
  try {
    (void)linear(tape, tape.parameter(0), tape.parameter(1), tape.parameter(2));
    FAIL();
  } catch (const ErrorException& error) {
    EXPECT_STREQ(error.what(), "wrong_shape: weight of linear is [4, 5], not [4, 3]");
  }
  EXPECT_THROW((void)layer_norm(tape, tape.parameter(0), tape.parameter(2), tape.parameter(2), 1e-5), ErrorException);
}

// Seven rows are not those of a batch of two, though there are 28 values.
TEST(Tape, OperatorsThatDropByRowRefuseABatchThatDoesNotDivideTheirRows) {
  ParameterLayout layout;
  const int x = layout.add("x", {7, 4});
  const int gamma = layout.add("gamma", {4});
  const int in = layout.add("in", {8, 4});
  const int out = layout.add("out", {4, 8});
  layout.finish();
  std::vector<float> weights(static_cast<size_t>(layout.size()), 1);
  Arena arena;
  Tape<float> tape(arena);
  tape.begin(layout, weights.data());
  const Tensor<float> rows = tape.parameter(x);
  const Tensor<float> scale = tape.parameter(gamma);
  const auto apply_all = [&](int64_t batch_rows, bool drops = true) {
    tape.begin(layout, weights.data());
    const auto mask = [&](const char* place) { return drops ? DropoutMask(0.1, 1, 2, place, 0) : DropoutMask(); };
    const auto message_of = [](const auto& apply) -> std::string {
      try {
        apply();
        return "";
      } catch (const ErrorException& error) {
        EXPECT_EQ(error.error().code, ErrorCode::kWrongShape);
        return error.error().message;
      }
    };
    return std::vector<std::string>{
        message_of([&] { (void)dropout(tape, rows, batch_rows, mask("first")); }), message_of([&] {
          (void)residual_layer_norm(tape, rows, rows, batch_rows, mask("second"), scale, scale, 1e-5);
        }),
        message_of([&] {
          (void)feed_forward<float>(tape, rows, {.in = tape.parameter(in), .out = tape.parameter(out)},
                                    {.dropout = mask("third"), .batch_rows = batch_rows});
        })};
  };
  EXPECT_THAT(apply_all(2),
              Each(testing::EndsWith("of [7, 4] with batch_rows = 2: each row of the batch needs as many rows")));
  EXPECT_THAT(apply_all(0), Each(testing::HasSubstr("batch_rows = 0")));
  EXPECT_THAT(apply_all(-7), Each(testing::HasSubstr("batch_rows = -7")));
  EXPECT_THAT(apply_all(7), Each(""));
  EXPECT_THAT(apply_all(1), Each(""));
  // A feed-forward block that drops nothing need not know.
  EXPECT_THAT(apply_all(0, /*drops=*/false), ElementsAre(testing::HasSubstr("dropout of [7, 4]"),
                                                         testing::HasSubstr("residual_layer_norm of [7, 4]"), ""));
}

TEST(Arena, AfterAStepItAsksTheSystemForNothingMore) {
  Arena arena;
  const auto step = [&] {
    arena.reset();
    for (int i = 0; i < 50; ++i) arena.allocate<float>(100'000 + i);
  };
  step();
  step();
  const size_t capacity = arena.capacity();
  EXPECT_GE(capacity, size_t{50} * 100'000 * sizeof(float));
  for (int i = 0; i < 5; ++i) step();
  EXPECT_EQ(arena.capacity(), capacity);
}

TEST(Arena, BlocksAreAlignedAndApartAndComeBackWhenReleased) {
  Arena arena;
  std::set<void*> blocks;
  for (int i = 0; i < 20; ++i) {
    auto* block = arena.allocate<char>(i * 37);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0U);
    EXPECT_TRUE(blocks.insert(block).second);
    std::fill_n(block, i * 37, static_cast<char>(i));
  }
  double* released = arena.allocate<double>(12);
  arena.release(released, 12);
  EXPECT_NE(static_cast<void*>(arena.allocate<double>(100)), released);
  EXPECT_EQ(arena.allocate<double>(12), released);
}

TEST(DropoutMask, OfOnePlaceIsRefusedTwiceInOnePass) {
  const ParameterLayout layout;
  Arena arena;
  Tape<float> tape(arena);
  const std::vector<float> values(8, 1);
  const auto drop = [&](const DropoutMask& mask) -> std::string {
    try {
      (void)dropout(tape, tape.constant(values.data(), {2, 4}), 2, mask);
    } catch (const ErrorException& error) {
      return error.what();
    }
    return "no error";
  };
  for (int pass = 0; pass < 2; ++pass) {
    tape.begin(layout, nullptr);
    EXPECT_EQ(drop(DropoutMask(0.5, 1, 2, "attention", 0)), "no error");
    EXPECT_EQ(drop(DropoutMask(0.5, 1, 2, "output", 0)), "no error");
    EXPECT_EQ(drop(DropoutMask(0.5, 1, 2, "attention", 2)), "no error") << "other rows";
    EXPECT_EQ(drop(DropoutMask(0.5, 2, 2, "attention", 0)), "no error") << "another seed";
    EXPECT_EQ(drop(DropoutMask()), "no error");
    EXPECT_EQ(drop(DropoutMask()), "no error");
    EXPECT_EQ(drop(DropoutMask(0, 1, 2, "attention", 0)), "no error") << "drops nothing";
    EXPECT_THAT(drop(DropoutMask(0.5, 1, 2, "attention", 0)),
                testing::HasSubstr("two dropouts of one pass have the place 'attention': they"));
    EXPECT_EQ(drop(DropoutMask(0.5, 1, 2, uint64_t{7}, 0)), "no error");
    EXPECT_THAT(
        drop(DropoutMask(0.5, 1, 2, uint64_t{7}, 0)),
        testing::HasSubstr("place 7: they would drop alike, so each call of a part of the model needs another"));
  }
}

// `y (+)= dropped x`, x of so many rows.
void apply_dropout(Arena& arena, const DropoutMask& mask, const std::vector<float>& x, int64_t rows, bool add,
                   std::vector<float>& y) {
  Tape<float> tape(arena);
  const int64_t size = std::ssize(x) / rows;
  const DrawnDropout<float> drawn(tape, mask, rows, 1, size);
  for (int64_t row = 0; row < rows; ++row) {
    float* part = y.data() + row * size;
    drawn.apply(row, x.data() + row * size, add ? part : nullptr, part);
  }
}

TEST(DropoutMask, KeepsEachValueWithItsProbabilityAndScalesIt) {
  Arena arena;
  const DropoutMask mask(0.2, 7, 3, 1, 0);
  const std::vector<float> x(100'001, 2);
  std::vector<float> y(x.size());
  apply_dropout(arena, mask, x, 1, false, y);
  int dropped = 0;
  for (float value : y) {
    ASSERT_TRUE(value == 0 || value == 2.5F) << value;
    dropped += value == 0 ? 1 : 0;
  }
  EXPECT_NEAR(dropped / static_cast<double>(x.size()), 0.2, 0.005);  // 4 standard deviations
  std::vector<float> added(x.size(), 1);
  apply_dropout(arena, mask, x, 1, true, added);
  for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(added[i], y[i] + 1);
}

TEST(DropoutMask, DependsOnSeedStepPlaceAndRowInTheGlobalBatch) {
  Arena arena;
  const std::vector<float> ones(64, 1);
  const auto kept = [&](const DropoutMask& mask, int64_t rows = 1) {
    std::vector<float> y(ones.size());
    apply_dropout(arena, mask, ones, rows, false, y);
    return y;
  };
  const std::vector<float> first = kept(DropoutMask(0.5, 1, 2, 3, 4));
  EXPECT_EQ(kept(DropoutMask(0.5, 1, 2, 3, 4)), first);
  EXPECT_NE(kept(DropoutMask(0.5, 2, 2, 3, 4)), first);
  EXPECT_NE(kept(DropoutMask(0.5, 1, 3, 3, 4)), first);
  EXPECT_NE(kept(DropoutMask(0.5, 1, 2, 4, 4)), first);
  EXPECT_NE(kept(DropoutMask(0.5, 1, 2, 3, 5)), first);
  // The documented words, for every length.
  for (int64_t length = 1; length < 70; ++length) {
    const DropoutMask mask(0.5, 1, 2, 3, 4);
    std::vector<uint32_t> words(static_cast<size_t>(DropoutMask::room(length)));
    mask.words(0, 1, 0, length, words.data());
    const std::vector<float> x(static_cast<size_t>(length), 1);
    std::vector<float> y(x.size() + 1, 9);
    apply_dropout(arena, mask, x, 1, false, y);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], words[i] < mask.threshold() ? 0 : 2) << length << " " << i;
    EXPECT_EQ(y.back(), 9);
  }
  // Two rows from row 3 on: the second is row 4, whose first values are the same whatever the row's length.
  const std::vector<float> two = kept(DropoutMask(0.5, 1, 2, 3, 3), 2);
  EXPECT_TRUE(std::equal(two.begin() + 32, two.end(), first.begin()));
  EXPECT_THROW(DropoutMask(1, 1, 1, 1, 1), ErrorException);
  // Places by name.
  const std::vector<float> named = kept(DropoutMask(0.5, 1, 2, "attention", 4));
  EXPECT_EQ(kept(DropoutMask(0.5, 1, 2, "attention", 4)), named);
  EXPECT_NE(kept(DropoutMask(0.5, 1, 2, "output", 4)), named);
  EXPECT_THROW(DropoutMask(-0.1, 1, 1, 1, 1), ErrorException);
}

TEST(DropoutMask, OfSomeTokensIsWhatTheyHaveAmongAll) {
  Arena arena;
  for (const int64_t columns : {5, 8, 48}) {
    Tape<float> tape(arena);
    constexpr int64_t kLength = 3;
    const DropoutMask mask(0.5, 1, 2, 3, 4);
    const std::vector<float> x(static_cast<size_t>(4 * kLength * columns), 1);
    std::vector<float> all(x.size());
    apply_dropout(arena, mask, x, 4, false, all);
    const std::vector<int32_t> tokens = {1, 2, 3, 10, 4};
    const DrawnDropout<float> drawn(tape, mask, kLength, columns, tokens);
    std::vector<float> some(static_cast<size_t>(columns));
    for (size_t i = 0; i < tokens.size(); ++i) {
      drawn.apply(static_cast<int64_t>(i), x.data(), nullptr, some.data());
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + tokens[i] * columns)) << tokens[i];
    }
  }
}

}  // namespace
}  // namespace millrace::tape_test
