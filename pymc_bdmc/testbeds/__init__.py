"""Systems with known answers, on which estimators are studied."""
