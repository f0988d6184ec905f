#include "millrace/formats/storage/remote/aws_config.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "tests/support/temporary_folder.h"

namespace millrace::aws_config_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

AwsSections of_config(std::string_view text) { return parse_aws_config(text, AwsFile::kConfig); }

std::string refusal(std::string_view text) {
  try {
    static_cast<void>(of_config(text));
  } catch (const ErrorException& exception) {
    EXPECT_EQ(exception.error().code, ErrorCode::kParse);
    return exception.error().message;
  }
  return "none";
}

TEST(AwsConfig, NamesProfilesAsEachFileDoes) {
  const std::string text =
      "[default]\nx=1\n[profile a]\nx=2\n[b]\nx=3\n[ profile \t c ]\nx=4\n[profile\td]\nx=5\n[profile \"e f\"]\nx=6\n"
      "[services s]\nx=7\n[sso-session t]\nx=8\n[profile in valid]\nx=9\n[profile]\nx=10\n[]\nx=11\n";
  const AwsSections config = of_config(text);
  EXPECT_THAT(config.profiles,
              ElementsAre(Pair("a", ElementsAre(Pair("x", "2"))), Pair("c", ElementsAre(Pair("x", "4"))),
                          Pair("d", ElementsAre(Pair("x", "5"))), Pair("default", ElementsAre(Pair("x", "1"))),
                          Pair("e f", ElementsAre(Pair("x", "6")))));
  EXPECT_THAT(config.services, ElementsAre(Pair("s", ElementsAre(Pair("x", "7")))));

  const AwsSections credentials =
      parse_aws_config("[default]\nx=1\n[profile a]\nx=2\n[ b ]\nx=3\n['c d']\nx=4\n", AwsFile::kCredentials);
  EXPECT_THAT(credentials.profiles,
              ElementsAre(Pair("b", ElementsAre(Pair("x", "3"))), Pair("c d", ElementsAre(Pair("x", "4"))),
                          Pair("default", ElementsAre(Pair("x", "1")))));
  EXPECT_THAT(credentials.services, IsEmpty());
}

TEST(AwsConfig, MergesSectionsOfOneNameAndTheLastValueHolds) {
  EXPECT_THAT(of_config("[profile a]\nx=1\ny=2\n[profile b]\n[profile a]\nx=3\nx=4\n").profiles,
              ElementsAre(Pair("a", ElementsAre(Pair("x", "4"), Pair("y", "2"))), Pair("b", IsEmpty())));
  // With the prefix it is the one that counts, wherever it stands.
  for (const char* text : {"[profile default]\nx=1\n[default]\ny=2\n", "[default]\ny=2\n[profile default]\nx=1\n"}) {
    EXPECT_THAT(of_config(text).profiles, ElementsAre(Pair("default", ElementsAre(Pair("x", "1"))))) << text;
  }
}

TEST(AwsConfig, TakesCommentsAndSpacesAsTheSdksDo) {
  const AwsSections config = of_config(
      "# first\n\t \n; second\r\n[profile a] # third\r\nKEY \t = \ta value\t\r\n  # indented\nb = c=d # fourth\n"
      "e = f#g\nh = i;j ; fifth\nk =\nl = # sixth\nin valid = m\n[profile b]; seventh\n");
  EXPECT_THAT(config.profiles.at("a"), ElementsAre(Pair("b", "c=d"), Pair("e", "f#g"), Pair("h", "i;j"), Pair("k", ""),
                                                   Pair("key", "a value"), Pair("l", "")));
  EXPECT_TRUE(config.profiles.contains("b"));
}

TEST(AwsConfig, GoesOnWithAValueOrNestsProperties) {
  const AwsSections config = of_config(
      "[profile a]\ncredential_process = /bin/tool\n  --account \t \n\n\t--more # no comment\n"
      "s3 =\n  Endpoint_Url = http://localhost # part of it\n\n  b = \n  in valid = c\nregion = d\n"
      "[services s]\ns3 =\n  endpoint_url = http://s3\nsts=\n  endpoint_url=http://sts\n");
  EXPECT_THAT(config.profiles.at("a"),
              ElementsAre(Pair("credential_process", "/bin/tool\n--account\n--more # no comment"), Pair("region", "d"),
                          Pair("s3", ""), Pair("s3.b", ""), Pair("s3.endpoint_url", "http://localhost # part of it")));
  EXPECT_THAT(of_config(" [profile a]\nb = c\n [profile d]\n").profiles,
              ElementsAre(Pair("a", ElementsAre(Pair("b", "c\n[profile d]")))));
  EXPECT_THAT(config.services.at("s"), ElementsAre(Pair("s3", ""), Pair("s3.endpoint_url", "http://s3"),
                                                   Pair("sts", ""), Pair("sts.endpoint_url", "http://sts")));
}

TEST(AwsConfig, RefusesOtherTextByItsLineAlone) {
  EXPECT_EQ(refusal("\n[profile a"), "line 2: a section ends in ']'");
  EXPECT_EQ(refusal("[profile a] marked"), "line 1: a section ends in ']'");
  EXPECT_EQ(refusal("# a\n\nmarked = b"), "line 3: a file begins with a section, such as [default]");
  EXPECT_EQ(refusal(" marked"), "line 1: a file begins with a section, such as [default]");
  EXPECT_EQ(refusal("[default]\nmarked : b"), "line 2: a property has the form NAME = VALUE");
  EXPECT_EQ(refusal("[default]\n= marked"), "line 2: a property needs a name before its '='");
  EXPECT_THAT(refusal("[default]\n marked"), HasSubstr("line 2: a line that begins with a space goes on with"));
  EXPECT_THAT(refusal("[default]\na=b\n[default]\n marked"), HasSubstr("line 4: a line that begins with a space"));
  EXPECT_EQ(refusal("[default]\ns3 =\n marked"), "line 3: a property has the form NAME = VALUE");
  EXPECT_EQ(refusal("[default]\ns3 =\n = marked"), "line 3: a property needs a name before its '='");
  // The same in sections that are left out.
  EXPECT_EQ(refusal("[other]\nmarked"), "line 2: a property has the form NAME = VALUE");
}

class AwsProfileTest : public ::testing::Test {
 protected:
  AwsProfileTest() {
    std::filesystem::create_directory(folder_.path(".aws"));
    values_["HOME"] = folder_.path();
  }
  void write(const std::string& config, const std::string& credentials) const {
    test::write_file(folder_.path(".aws/config"), config);
    test::write_file(folder_.path(".aws/credentials"), credentials);
  }
  AwsProfile load(const std::string& name = "") const {
    const auto value = [this](std::string_view variable) -> std::optional<std::string> {
      const auto found = values_.find(variable);
      if (found == values_.end()) return std::nullopt;
      return found->second;
    };
    return load_aws_profile(value, name);
  }
  std::string refusal(const std::string& name = "") const {
    try {
      static_cast<void>(load(name));
    } catch (const ErrorException& exception) {
      return exception.error().message;
    }
    return "none";
  }

  const test::TemporaryFolder folder_;
  std::map<std::string, std::string, std::less<>> values_;
};

TEST_F(AwsProfileTest, HasWhatBothFilesSay) {
  write(
      "[default]\nregion = eu-north-1\naws_access_key_id = of-config\naws_secret_access_key = s\naws_session_token = "
      "t\n"
      "services = local\nendpoint_url = http://all\n[services local]\ns3 =\n  endpoint_url = http://s3\n"
      "sts =\n  endpoint_url = http://sts\n",
      "[default]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = secret\nregion = us-west-2\n"
      "role_arn = arn\nweb_identity_token_file = /token\nrole_session_name = me\ncredential_process = /bin/tool\n");
  const AwsProfile profile = load();
  EXPECT_EQ(profile.name, "default");
  EXPECT_TRUE(profile.is_there);
  EXPECT_EQ(profile.access_key_id, "AKIDEXAMPLE");
  EXPECT_EQ(profile.secret_access_key, "secret");
  EXPECT_EQ(profile.session_token, "") << "of other keys";
  EXPECT_EQ(profile.keys_at, "~/.aws/credentials");
  EXPECT_EQ(profile.region, "us-west-2");
  EXPECT_EQ(profile.endpoint_url, "http://all");
  EXPECT_EQ(profile.s3_endpoint_url, "http://s3");
  EXPECT_EQ(profile.sts_endpoint_url, "http://sts");
  EXPECT_EQ(profile.role_arn, "arn");
  EXPECT_EQ(profile.web_identity_token_file, "/token");
  EXPECT_EQ(profile.role_session_name, "me");
  EXPECT_EQ(profile.credential_process, "/bin/tool");
  EXPECT_EQ(profile.unsupported, "");

  values_["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "TRUE";
  const AwsProfile without = load();
  EXPECT_EQ(without.region, "us-west-2");
  EXPECT_EQ(without.endpoint_url + without.s3_endpoint_url + without.sts_endpoint_url, "");
}

TEST_F(AwsProfileTest, IsTheOneThatIsNamed) {
  write("[profile a]\nregion=ra\n[profile b]\nregion=rb\nsource_profile=a\n[profile c]\naws_access_key_id=k\n", "");
  EXPECT_FALSE(load().is_there);
  values_["AWS_DEFAULT_PROFILE"] = "a";
  EXPECT_EQ(load().region, "ra");
  values_["AWS_PROFILE"] = "b";
  EXPECT_EQ(load().region, "rb");
  EXPECT_EQ(load().unsupported, "source_profile");
  EXPECT_EQ(load("c").access_key_id, "k");
  EXPECT_EQ(load("c").keys_at, "~/.aws/config");
  EXPECT_EQ(refusal("d"), "there is no profile 'd' in ~/.aws/config and ~/.aws/credentials");
  values_["AWS_PROFILE"] = "e";
  EXPECT_EQ(refusal(), "there is no profile 'e' (named by AWS_PROFILE) in ~/.aws/config and ~/.aws/credentials");
}

TEST_F(AwsProfileTest, IsReadFromTheFilesThatTheEnvironmentNames) {
  test::write_file(folder_.path("one"), "[default]\nregion = r\n");
  test::write_file(folder_.path("two"), "[default]\naws_access_key_id = k\n");
  values_["AWS_CONFIG_FILE"] = folder_.path("one");
  values_["AWS_SHARED_CREDENTIALS_FILE"] = "~/two";
  const AwsProfile profile = load();
  EXPECT_EQ(profile.region, "r");
  EXPECT_EQ(profile.access_key_id, "k");
  EXPECT_EQ(profile.keys_at, "~/two");
  EXPECT_EQ(profile.files, folder_.path("one") + " and ~/two");
  values_.clear();  // no home either
  EXPECT_FALSE(load().is_there);
}

TEST_F(AwsProfileTest, NamesTheFileThatCannotBeRead) {
  write("[default]\nregion = r\n", "[default]\naws_secret_access_key marked\n");
  EXPECT_EQ(refusal(),
            "cannot read " + folder_.path(".aws/credentials") + ": line 2: a property has the form NAME = VALUE");
  values_["AWS_CONFIG_FILE"] = folder_.path(".aws");
  EXPECT_EQ(refusal(), "cannot read " + folder_.path(".aws") + ": Is a directory");
  values_.erase("AWS_CONFIG_FILE");
  test::write_file(folder_.path(".aws/config"), std::string(kMostAwsConfig + 1, '\n'));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("it has more than 1048576 bytes"), Not(HasSubstr("marked"))));
}

}  // namespace
}  // namespace millrace::aws_config_test
