"""Moving what runs from one scheduler to another, step by step, so that every step can be taken back."""
