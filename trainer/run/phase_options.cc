#include "millrace/trainer/run/phase_options.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/command_line/given_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/error.h"
#include "millrace/formats/utf8.h"
#include "millrace/trainer/trainer_options.h"

namespace millrace {
namespace {

namespace po = boost::program_options;

// An option whose default is the value that is there.
auto value(std::string& variable) { return po::value(&variable)->default_value(variable); }

// A number of which 0 stands for none: then it has no default.
po::typed_value<int64_t>* count(int64_t& variable) {
  const WholeNumberLimits limits = {1, kMostSteps};
  return variable > 0 ? whole_number(variable, limits) : whole_number(&variable, limits);
}

// `steps=1,freeze=a,b` as --steps=1 --freeze=a,b.
std::vector<std::string> arguments_of(std::string_view text) {
  constexpr std::string_view kLast = "freeze=";
  std::vector<std::string> arguments;
  while (true) {
    const size_t comma = text.starts_with(kLast) ? std::string_view::npos : text.find(',');
    const std::string_view argument = text.substr(0, comma);
    const size_t equals = argument.find('=');
    require(equals != 0 && equals != std::string_view::npos,
            fmt::format("'{}' is not NAME=VALUE", printable(excerpt(argument))));
    arguments.push_back(fmt::format("--{}", argument));
    if (comma == std::string_view::npos) return arguments;
    text.remove_prefix(comma + 1);
  }
}

// `200:400`.
std::vector<int64_t> parse_milestones(std::string_view text) {
  std::vector<int64_t> steps;
  while (true) {
    const size_t end = std::min(text.find(':'), text.size());
    int64_t step = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + end, step);
    require(error == std::errc() && rest == text.data() + end && step > (steps.empty() ? 0 : steps.back()) &&
                step <= kMostSteps,
            fmt::format("--milestones has {}, must be whole numbers that ascend, such as 200:400",
                        printable(excerpt(std::string(text.substr(0, end))))));
    steps.push_back(step);
    if (end == text.size()) return steps;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

void add_phase_options(PhaseOptions& options, po::options_description& described) {
  // clang-format off
  described.add_options()
      ("steps", count(options.steps),
       "updates of the weights, those that are skipped for not being finite included; whatever is counted in steps counts these")
      ("epochs", count(options.epochs), "in place of --steps, by the counts in the names of files; of both the one that ends first counts")
      ("optimizer", value(options.optimizer), "adamw, radam or lamb")
      ("learning-rate", real_number(options.learning_rate, {1e-12, 1e6}), "the highest; falls as --decay says, to --end-rate")
      ("start-rate", real_number(options.start_rate, {0, 1e6}), "the learning rate at the first step of the warm-up")
      ("end-rate", real_number(options.end_rate, {0, 1e6}), "the learning rate at the end")
      ("warmup-steps", po::value<std::string>()->default_value(to_string(options.warmup_steps)),
       "steps in which the learning rate rises from --start-rate, or their share of all such as 10%; not given, at most --steps")
      ("decay", value(options.decay), "how the learning rate falls: linear, cosine or milestones")
      ("milestones", po::value<std::string>(),
       "with --decay milestones, steps such as 200000:400000 after each of which --milestone-factor multiplies the learning rate")
      ("milestone-factor", real_number(&options.milestone_factor, {1e-6, 1}), "what the learning rate is multiplied by (default: 0.5)")
      ("weight-decay", real_number(options.weight_decay, {0, 1e6}),
       "of all parameters but layer norms and biases")
      ("freeze", po::value(&options.freeze),
       "parameters whose names match this regular expression are not trained, such as 'layer\\.0\\.'");
  // clang-format on
}

void take_phase_options(PhaseOptions& options, const po::variables_map& given) {
  const bool steps = was_given(given, "steps");
  const bool epochs = was_given(given, "epochs");
  if (steps && !epochs) options.epochs = 0;
  if (epochs && !steps) options.steps = 0;
  if (was_given(given, "warmup-steps")) {
    options.warmup_steps = parse_warmup("warmup-steps", given["warmup-steps"].as<std::string>());
  }
  require(options.optimizer == "adamw" || options.optimizer == "radam" || options.optimizer == "lamb",
          fmt::format("--optimizer is {}, must be adamw, radam or lamb", printable(excerpt(options.optimizer))));
  require(options.decay == "linear" || options.decay == "cosine" || options.decay == "milestones",
          fmt::format("--decay is {}, must be linear, cosine or milestones", printable(excerpt(options.decay))));
  if (was_given(given, "milestones")) options.milestones = parse_milestones(given["milestones"].as<std::string>());
}

PhaseOptions parse_phase(const std::string& text, const PhaseOptions& others) {
  PhaseOptions options = others;
  po::options_description described;
  add_phase_options(options, described);
  const std::string where = fmt::format("--phase {}: ", printable(excerpt(text)));
  const auto refuse = [&](const std::string& message) {
    throw ErrorException(ErrorCode::kInvalidArgument, where + message);
  };
  try {
    po::variables_map given;
    const auto style = po::command_line_style::allow_long | po::command_line_style::long_allow_adjacent;
    po::store(po::command_line_parser(arguments_of(text)).options(described).style(style).run(), given);
    po::notify(given);
    take_phase_options(options, given);
  } catch (const po::unknown_option& error) {
    // With its value: `--seed=3`.
    const std::string written = error.get_option_name();
    std::vector<std::string> names;
    for (const auto& option : described.options()) names.push_back(option->long_name());
    refuse(fmt::format("no '{}' in a phase; there are: {}",
                       printable(excerpt(written.substr(2, written.find('=') - 2))), fmt::join(names, ", ")));
  } catch (const po::error& error) {
    refuse(error.what());
  } catch (const ErrorException& error) {
    refuse(error.error().message);
  }
  return options;
}

}  // namespace millrace
