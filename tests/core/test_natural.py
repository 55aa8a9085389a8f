"""The order of names with numbers."""

from hypothesis import given
from hypothesis import strategies as st

from levelfield.core.strings import natural


@given(st.lists(st.text("a1 0²٣-"), max_size=8))
def test_any_names_can_be_sorted_whatever_their_order(names):
    turned = names[::-1]
    assert sorted(names, key=natural) == sorted(turned, key=natural)


@given(st.integers(0), st.integers(0), st.sampled_from(["", "m-", "1-"]))
def test_names_that_differ_in_a_number_have_its_order(a, b, before):
    assert (natural(f"{before}{a}x") < natural(f"{before}{b}x")) == (a < b)


def test_numbers_of_any_length_are_compared():
    assert natural("m" + "9" * 9000) > natural("m" + "1" * 9000)
    assert natural("m-01") != natural("m-1")
