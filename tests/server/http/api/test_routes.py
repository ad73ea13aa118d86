"""Operations as they are served, and the document that describes them."""

from tests.server.http.asking import Pages


def test_whoami_names_the_user_and_its_tags(pages: Pages) -> None:
    assert pages.facts("/api/whoami") == {"name": "guest", "tags": ["administrator"]}


def test_without_a_login_there_is_no_answer(pages: Pages) -> None:
    response = Pages(pages.broker, None).get("/api/whoami")
    assert response.status_code == 401
    assert response.json()["error"] == "unauthorized"


def test_a_method_that_a_path_does_not_have_is_refused(pages: Pages) -> None:
    assert pages.ask("DELETE", "/api/whoami").status_code == 405


def test_the_document_describes_every_operation(pages: Pages) -> None:
    document = pages.facts("/api/openapi.json")
    paths = document["paths"]
    assert isinstance(paths, dict)
    assert "get" in paths["/api/whoami"]


def test_a_slash_at_the_end_of_a_path_changes_nothing(pages: Pages) -> None:
    """Flower asks for the queues of the default virtual host with two of them."""
    for path in ("/api/whoami/", "/api/queues//", "/api/exchanges/%2F/"):
        assert pages.get(path).status_code == 200
