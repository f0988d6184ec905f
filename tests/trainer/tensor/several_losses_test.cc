// What trainings with several networks ask of one forward pass: two losses with parameters of their own, a network that
// is called twice, a frozen one, a teacher.
#include <cmath>
#include <vector>

#include <gmock/gmock.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/tensor/absolute_error.h"
#include "millrace/trainer/tensor/add.h"
#include "millrace/trainer/tensor/bce_with_logits.h"
#include "millrace/trainer/tensor/linear.h"
#include "millrace/trainer/tensor/squared_error.h"
#include "millrace/trainer/tensor/sum.h"
#include "millrace/trainer/tensor/tanh.h"
#include "millrace/trainer/tensor/tape.h"

namespace millrace::several_losses_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Announced final : public GradientListener {
 public:
  void gradient_final(int id) override { ids.push_back(id); }
  std::vector<int> ids;
};

// A generator of one matrix and a discriminator of two.
struct Networks {
  Networks() {
    generator = layout.add("generator", {3, 3});
    first = layout.add("discriminator.first", {4, 3});
    second = layout.add("discriminator.second", {1, 4});
    layout.finish();
    weights.resize(static_cast<size_t>(layout.size()));
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = std::sin(0.5 + 1.3 * static_cast<double>(i));
    for (size_t i = 0; i < input.size(); ++i) input[i] = std::cos(static_cast<double>(i));
  }
  Tensor<double> generated(Tape<double>& tape) const {
    return tanh(tape, linear(tape, tape.constant(input.data(), {2, 3}), tape.parameter(generator)));
  }
  Tensor<double> judged(Tape<double>& tape, const Tensor<double>& images) const {
    return linear(tape, tanh(tape, linear(tape, images, tape.parameter(first))), tape.parameter(second));
  }
  // Of the discriminator, called on what is real and on what was made.
  Tensor<double> discriminator_loss(Tape<double>& tape, const Tensor<double>& of_made) const {
    const Tensor<double> of_real = judged(tape, tape.constant(real.data(), {2, 3}));
    return add(tape, sum(tape, bce_with_logits(tape, of_real, tape.constant(ones.data(), {2, 1}))),
               sum(tape, bce_with_logits(tape, of_made, tape.constant(zeros.data(), {2, 1}))));
  }
  Tensor<double> generator_loss(Tape<double>& tape, const Tensor<double>& made, const Tensor<double>& of_made) const {
    return add(tape, sum(tape, bce_with_logits(tape, of_made, tape.constant(ones.data(), {2, 1}))),
               sum(tape, absolute_error(tape, made, tape.constant(real.data(), {2, 3}))));
  }

  ParameterLayout layout;
  int generator = 0, first = 0, second = 0;
  std::vector<double> weights;
  std::vector<double> input = std::vector<double>(6);
  std::vector<double> real = {1, -1, 0.5, 0.25, 0, -0.5};
  std::vector<double> ones = {1, 1};
  std::vector<double> zeros = {0, 0};
};

TEST(SeveralLosses, TwoBackwardPassesOfOneForwardPassGiveEachNetworkTheGradientOfItsOwnLoss) {
  const Networks networks;
  Arena arena;
  Tape<double> tape(arena);
  // Each loss in a forward pass of its own.
  std::vector<double> of_generator(networks.weights.size());
  tape.begin(networks.layout, networks.weights.data(), {.values = of_generator.data()});
  Tensor<double> made = networks.generated(tape);
  tape.backward(networks.generator_loss(tape, made, networks.judged(tape, made)));
  std::vector<double> of_discriminator(networks.weights.size());
  tape.begin(networks.layout, networks.weights.data(), {.values = of_discriminator.data()});
  made = networks.generated(tape);
  tape.backward(networks.discriminator_loss(tape, networks.judged(tape, made)));

  std::vector<double> both(networks.weights.size(), NAN);
  Announced announced;
  tape.begin(networks.layout, networks.weights.data(), {.values = both.data(), .listener = &announced});
  made = networks.generated(tape);
  const Tensor<double> of_made = networks.judged(tape, made);
  const Tensor<double> generator_loss = networks.generator_loss(tape, made, of_made);
  const Tensor<double> discriminator_loss = networks.discriminator_loss(tape, of_made);
  const std::vector<int> generator = {networks.generator};
  const std::vector<int> discriminator = {networks.first, networks.second};
  tape.backward(generator_loss, {}, generator);
  EXPECT_THAT(announced.ids, ElementsAre(networks.generator));
  tape.backward(discriminator_loss, {}, discriminator);
  EXPECT_THAT(announced.ids, ElementsAre(networks.generator, networks.second, networks.first));

  for (const Parameter& parameter : networks.layout.parameters()) {
    const std::vector<double>& expected = parameter.name == "generator" ? of_generator : of_discriminator;
    for (int64_t i = parameter.offset; i < parameter.offset + parameter.size; ++i) {
      const auto at = static_cast<size_t>(i);
      EXPECT_EQ(both[at], expected[at]) << parameter.name;
      EXPECT_NE(of_generator[at], of_discriminator[at]) << "the comparison cannot fail";
    }
  }
  try {
    tape.backward(generator_loss, {}, generator);
    FAIL();
  } catch (const ErrorException& error) {
    EXPECT_THAT(error.what(), HasSubstr("a second backward pass for the parameter generator"));
  }
}

TEST(SeveralLosses, AStudentLearnsFromTheTensorsOfATeachersTape) {
  const Networks networks;
  Arena teacher_arena;
  Tape<double> teacher(teacher_arena);
  std::vector<double> teacher_weights = networks.weights;
  for (double& weight : teacher_weights) weight += 0.25;
  teacher.begin(networks.layout, teacher_weights.data());
  const Tensor<double> target = networks.generated(teacher);

  Arena arena;
  Tape<double> tape(arena);
  std::vector<double> gradients(networks.weights.size(), NAN);
  tape.begin(networks.layout, networks.weights.data(), {.values = gradients.data()});
  const Tensor<double> output = networks.generated(tape);
  tape.backward(sum(tape, squared_error(tape, output, tape.constant(target.values, target.shape))));
  double largest = 0;
  for (const Parameter& parameter : networks.layout.parameters()) {
    for (int64_t i = parameter.offset; i < parameter.offset + parameter.size; ++i) {
      const double gradient = gradients[static_cast<size_t>(i)];
      if (parameter.name == "generator") {
        largest = std::max(largest, std::abs(gradient));
      } else {
        EXPECT_TRUE(std::isnan(gradient)) << parameter.name << " is not used here, but was written";
      }
    }
  }
  EXPECT_GT(largest, 0.01);
}

}  // namespace
}  // namespace millrace::several_losses_test
