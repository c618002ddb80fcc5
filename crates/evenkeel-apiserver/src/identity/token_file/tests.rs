//! The file format as kube-apiserver reads it.

use super::*;

fn parse(text: &str) -> Result<TokenFile, String> {
    TokenFile::parse("tokens.csv", text).map_err(|error| error.to_string())
}

fn groups<'a>(tokens: &'a TokenFile, token: &str) -> Vec<&'a str> {
    tokens.identity(token).unwrap().groups.iter().map(String::as_str).collect()
}

#[test]
fn records_give_user_uid_and_groups() {
    let tokens = parse(concat!(
        "\n",
        "token1,user1,uid1\r\n",
        "token2,user2,uid2,\"group1,group2\"\n",
        "\n",
        "token3,user3,uid3,group5,otherdata\n",
        "\"to\"\"ken4\",\"user,4\",\"uid\n4\",\"group2\"",
    ))
    .unwrap();
    let first = tokens.identity("token1").unwrap();
    assert_eq!((first.user.as_str(), first.uid.as_str()), ("user1", "uid1"));
    assert_eq!(groups(&tokens, "token1"), ["system:authenticated"]);
    assert_eq!(groups(&tokens, "token2"), ["group1", "group2", "system:authenticated"]);
    assert_eq!(groups(&tokens, "token3"), ["group5", "system:authenticated"]);
    let fourth = tokens.identity("to\"ken4").unwrap();
    assert_eq!((fourth.user.as_str(), fourth.uid.as_str()), ("user,4", "uid\n4"));
    assert_eq!(tokens.len(), 4);
}

#[test]
fn unknown_prefix_and_empty_tokens_are_not_accepted() {
    let tokens = parse("secret,bob,1\n,mallory,2\n").unwrap();
    assert_eq!(tokens.len(), 1);
    for token in ["", "secre", "secret1", "Secret", "terces"] {
        assert_eq!(tokens.identity(token), None, "{token:?}");
    }
}

#[test]
fn later_record_of_a_duplicate_token_wins() {
    let tokens = parse("t,first,1\nt,second,2\n").unwrap();
    assert_eq!(tokens.identity("t").unwrap().user, "second");
    assert_eq!(tokens.len(), 1);
}

#[test]
fn missing_columns_are_an_error_with_the_count() {
    let error = parse("token1,user1,uid1\ntoken3,user3\n").unwrap_err();
    let expected = "token file 'tokens.csv' must have at least 3 columns (token, user name, \
                    user uid), found 2";
    assert_eq!(error, expected);
}

#[test]
fn quoting_mistakes_are_reported_where_go_reports_them() {
    for (text, expected) in [
        ("a,b\"c,d\n", "parse error on line 1, column 4: bare \" in non-quoted-field"),
        (
            "a,\"b\"c,d\n",
            "parse error on line 1, column 5: extraneous or missing \" in quoted-field",
        ),
        ("\na,\"b", "parse error on line 2, column 5: extraneous or missing \" in quoted-field"),
        (
            "a,\"b\nc\"d\n",
            "record on line 1; parse error on line 2, column 2: extraneous or missing \" in quoted-field",
        ),
        ("a,\"b\n", "parse error on line 1, column 6: extraneous or missing \" in quoted-field"),
    ] {
        assert_eq!(parse(text).unwrap_err(), expected, "{text:?}");
    }
}

#[test]
fn debug_output_holds_no_token() {
    let tokens = parse("s3cr3t,bob,1\n").unwrap();
    let debug = format!("{tokens:?}");
    assert!(debug.contains("bob") && !debug.contains("s3cr3t"), "{debug}");
}

#[test]
fn missing_file_is_named_in_the_error() {
    let error = TokenFile::load(Path::new("does/not/exist.csv")).unwrap_err();
    assert_eq!(error.to_string(), "unable to read token file 'does/not/exist.csv'");
}
