// Moves described structs (ops/description.h) to and from messages that have their fields by name.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/message.h>

#include "millrace/formats/utf8.h"
#include "millrace/ops/arguments.h"
#include "millrace/pipeline/definition/function_registry.h"

namespace millrace::definition {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// The field of this name. A test compares the messages with the descriptions.
inline const FieldDescriptor* field_of(const Message& message, std::string_view name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(std::string(name));
  if (field == nullptr) {
    throw std::logic_error(
        fmt::format("{} has no field '{}': pipeline_def.proto is older than the descriptions, "
                    "docs/new_operator.md says how it is made anew",
                    message.GetDescriptor()->name(), name));
  }
  return field;
}

inline bool is_text(const std::string& value) { return is_valid_utf8(value); }
inline bool is_text(const std::vector<std::string>& values) {
  return std::all_of(values.begin(), values.end(), is_valid_utf8);
}
template <typename T>
constexpr bool kIsText = std::is_same_v<T, std::string> || std::is_same_v<T, std::vector<std::string>>;
/// What goes into a field as it is.
template <typename T>
constexpr bool kIsScalar = std::is_arithmetic_v<T> || std::is_same_v<T, std::string> || NamedEnum<T>;

/// Writes what a struct has. What an option has by default is written too, so that a definition keeps its meaning
/// should a default change. A function of yours that is not registered is `kInvalidArgument`.
class FieldWriter {
 public:
  explicit FieldWriter(Message& message) : message_(message) {}

  template <Described T>
  void write(const T& value) {
    description_of<T>().for_each([&]<typename F>(F) {
      if constexpr (F::kForm != Form::kInlined) {
        put<F::kForm>(F::kName, F::of(value));
      } else if constexpr (Described<typename F::Value>) {
        write(F::of(value));
      } else {
        write(WrittenAs<typename F::Value>::to(F::of(value)));
      }
    });
  }

 private:
  template <Form kForm, typename T>
  void put(std::string_view name, const T& value) {
    if constexpr (description::kIsA<std::optional, T> || description::kIsA<std::shared_ptr, T>) {
      if (value) put<kForm>(name, *value);
    } else if constexpr (UserFunction<T>) {
      (void)registered_function<T>(value.name);
      set(field_of(message_, name), value.name);
    } else if constexpr (Rewritten<T>) {
      put<kForm>(name, WrittenAs<T>::to(value));
    } else if constexpr (kForm == Form::kShape) {
      FieldWriter(nested(name)).put<Form::kPlain>("sizes", value);
    } else if constexpr (kIsScalar<T> || description::kIsA<std::vector, T>) {
      std::string field(name);
      if constexpr (kForm == Form::kBytes && kIsText<T>) field += is_text(value) ? "" : "_bytes";
      set(field_of(message_, field), value);
    } else {
      FieldWriter(nested(name)).put_message(value);
    }
  }
  template <typename T>
  void put_message(const T& value) {
    if constexpr (description::kIsA<std::variant, T>) {
      std::visit([&]<typename One>(const One& one) { put<Form::kBytes>(alternative_name<One>(), one); }, value);
    } else {
      write(value);
    }
  }
  // The text forms of messages would lose what is no UTF-8.
  static void check_text(const FieldDescriptor* field, const std::string& value) {
    if (field->type() == FieldDescriptor::TYPE_BYTES || is_text(value)) return;
    refuse_argument(fmt::format("'{}' is no UTF-8: '{}'", field->name(), printable(value)));
  }
  Message& nested(std::string_view name) {
    return *message_.GetReflection()->MutableMessage(&message_, field_of(message_, name));
  }

  template <typename T>
  void set(const FieldDescriptor* field, const T& value) {
    if constexpr (description::kIsA<std::vector, T>) {
      for (const auto& one : value) set_one(field, one);
    } else {
      set_one(field, value);
    }
  }
  // Of a field that has several, one more.
  template <typename T>
  void set_one(const FieldDescriptor* field, const T& value) {
    const auto* to = message_.GetReflection();
    const bool adds = field->is_repeated();
    if constexpr (std::is_same_v<T, bool>) {
      adds ? to->AddBool(&message_, field, value) : to->SetBool(&message_, field, value);
    } else if constexpr (std::is_enum_v<T>) {
      const int number = static_cast<int>(value) + 1;  // 0 stands for none
      adds ? to->AddEnumValue(&message_, field, number) : to->SetEnumValue(&message_, field, number);
    } else if constexpr (std::is_same_v<T, std::string>) {
      check_text(field, value);
      adds ? to->AddString(&message_, field, value) : to->SetString(&message_, field, value);
    } else if constexpr (std::is_same_v<T, float>) {
      adds ? to->AddFloat(&message_, field, value) : to->SetDouble(&message_, field, value);
    } else if constexpr (std::is_floating_point_v<T>) {
      adds ? to->AddDouble(&message_, field, value) : to->SetDouble(&message_, field, value);
    } else if constexpr (std::is_unsigned_v<T>) {
      adds ? to->AddUInt64(&message_, field, value) : to->SetUInt64(&message_, field, value);
    } else if constexpr (std::is_integral_v<T>) {
      adds ? to->AddInt64(&message_, field, value) : to->SetInt64(&message_, field, value);
    } else if constexpr (Rewritten<T>) {
      set_one(field, WrittenAs<T>::to(value));
    } else {
      FieldWriter(*to->AddMessage(&message_, field)).write(value);
    }
  }

  Message& message_;
};

/// Reads a struct. What is missing and has no default is `kInvalidArgument`.
class FieldReader {
 public:
  explicit FieldReader(const Message& message) : message_(message) {}

  template <Described T>
  void read(T& value) const {
    description_of<T>().for_each([&]<typename F>(F) {
      using Value = typename F::Value;
      if constexpr (F::kForm != Form::kInlined) {
        if (!get<F::kForm>(F::kName, F::of(value)) && F::kRequired && !description::kIsA<std::vector, Value>) {
          refuse_argument(fmt::format("'{}' is missing", F::kName));
        }
      } else if constexpr (Described<Value>) {
        read(F::of(value));
      } else {
        F::of(value) = from<Value>();
      }
    });
  }

 private:
  template <typename T>
  T from() const {
    typename WrittenAs<T>::Type written{};
    read(written);
    return WrittenAs<T>::from(written);
  }

  // Whether it was there.
  template <Form kForm, typename T>
  bool get(std::string_view name, T& value) const {
    if constexpr (description::kIsA<std::optional, T>) {
      return take<kForm, typename T::value_type>(name, value);
    } else if constexpr (description::kIsA<std::shared_ptr, T>) {
      std::remove_const_t<typename T::element_type> read{};
      const bool is_there = get<kForm>(name, read);
      value = std::make_shared<typename T::element_type>(std::move(read));
      return is_there;
    } else if constexpr (UserFunction<T> || Rewritten<T>) {
      return take<kForm, T>(name, value);
    } else if constexpr (kForm == Form::kShape) {
      const FieldDescriptor* field = field_of(message_, name);
      if (!is_there(field)) return false;
      value.clear();
      FieldReader(message_.GetReflection()->GetMessage(message_, field)).get<Form::kPlain>("sizes", value);
      return true;
    } else {
      const FieldDescriptor* field = field_of(message_, name);
      if constexpr (kForm == Form::kBytes && kIsText<T>) field = text_or_bytes(field);
      if (!is_there(field)) return false;
      if constexpr (kIsScalar<T> || description::kIsA<std::vector, T>) {
        set(field, value);
      } else {
        FieldReader(message_.GetReflection()->GetMessage(message_, field)).get_message(value);
      }
      return true;
    }
  }
  // The same for a new T, which need not have a default.
  template <Form kForm, typename T, typename To>
  bool take(std::string_view name, To& to) const {
    if constexpr (UserFunction<T>) {
      std::string function;
      if (!get<kForm>(name, function)) return false;
      to = registered_function<T>(function);
    } else if constexpr (Rewritten<T>) {
      typename WrittenAs<T>::Type written{};
      if (!get<kForm>(name, written)) return false;
      to = WrittenAs<T>::from(written);
    } else {
      T value{};
      if (!get<kForm>(name, value)) return false;
      to = std::move(value);
    }
    return true;
  }
  template <typename T>
  void get_message(T& value) const {
    if constexpr (description::kIsA<std::variant, T>) {
      get_alternative(value);
    } else {
      read(value);
    }
  }
  template <typename... T>
  void get_alternative(std::variant<T...>& value) const {
    const auto take = [&]<typename One>(One alternative) {
      if (!get<Form::kBytes>(alternative_name<One>(), alternative)) return false;
      value = std::move(alternative);
      return true;
    };
    if (!(take(T{}) || ...)) {
      refuse_argument(fmt::format("there is none of '{}'", fmt::join(std::array{alternative_name<T>()...}, "', '")));
    }
  }

  bool is_there(const FieldDescriptor* field) const {
    const auto* reflection = message_.GetReflection();
    return field->is_repeated() ? reflection->FieldSize(message_, field) > 0 : reflection->HasField(message_, field);
  }
  const FieldDescriptor* text_or_bytes(const FieldDescriptor* text) const {
    const FieldDescriptor* bytes = field_of(message_, text->name() + "_bytes");
    if (!is_there(bytes)) return text;
    if (is_there(text)) refuse_argument(fmt::format("there are both '{}' and '{}'", text->name(), bytes->name()));
    return bytes;
  }

  template <typename T>
  void set(const FieldDescriptor* field, T& value) const {
    if constexpr (description::kIsA<std::vector, T>) {
      value.clear();
      const int size = message_.GetReflection()->FieldSize(message_, field);
      for (int i = 0; i < size; ++i) value.push_back(one<typename T::value_type>(field, i));
    } else {
      value = one<T>(field);
    }
  }
  // Of a field that has several, the i-th.
  template <typename T>
  T one(const FieldDescriptor* field, int i = 0) const {
    const auto* from = message_.GetReflection();
    const bool several = field->is_repeated();
    if constexpr (std::is_same_v<T, bool>) {
      return several ? from->GetRepeatedBool(message_, field, i) : from->GetBool(message_, field);
    } else if constexpr (std::is_enum_v<T>) {
      const int number = several ? from->GetRepeatedEnumValue(message_, field, i) : from->GetEnumValue(message_, field);
      if (number == 0 || field->enum_type()->FindValueByNumber(number) == nullptr) {
        refuse_argument(fmt::format("'{}' is not one of the names of {}", field->name(),
                                    field->enum_type()->containing_type()->name()));
      }
      return static_cast<T>(number - 1);
    } else if constexpr (std::is_same_v<T, std::string>) {
      return several ? from->GetRepeatedString(message_, field, i) : from->GetString(message_, field);
    } else if constexpr (std::is_same_v<T, float>) {
      return several ? from->GetRepeatedFloat(message_, field, i) : static_cast<T>(from->GetDouble(message_, field));
    } else if constexpr (std::is_floating_point_v<T>) {
      return several ? from->GetRepeatedDouble(message_, field, i) : from->GetDouble(message_, field);
    } else if constexpr (std::is_unsigned_v<T>) {
      return static_cast<T>(several ? from->GetRepeatedUInt64(message_, field, i) : from->GetUInt64(message_, field));
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(several ? from->GetRepeatedInt64(message_, field, i) : from->GetInt64(message_, field));
    } else if constexpr (Rewritten<T>) {
      return WrittenAs<T>::from(one<typename WrittenAs<T>::Type>(field, i));
    } else {
      T value{};
      FieldReader(from->GetRepeatedMessage(message_, field, i)).read(value);
      return value;
    }
  }

  const Message& message_;
};

}  // namespace millrace::definition
